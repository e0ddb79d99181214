"""The loop, over a journal in memory."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from agents.core.requests import (
    Ask,
    Diverged,
    Escalate,
    Flow,
    Json,
    Reply,
    Request,
    Strand,
    Together,
    Use,
)
from agents.engine.drive import Later, drive
from agents.patterns import Brief, Notes
from agents.patterns.supervisor import SHOWN, supervisor
from agents.tools import specs
from tests.engine.memory import Crash, MemoryWorld
from tests.limits import SUPERVISED


def go(flow: Flow, world: MemoryWorld) -> Strand:
    return asyncio.run(drive(flow, world))


def flow_of_supervisor() -> Flow:
    return supervisor(Brief("refund 42", SUPERVISED, specs("refunds")), Notes())


def refund_world() -> MemoryWorld:
    """A worker that reads, asks for 1200 and answers; a policy that wants a person for it."""
    said = {
        "1/propose": '{"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}',
        "2/propose": '{"kind": "tool", "name": "issue_refund", '
        '"args": {"user_id": 42, "amount_usd": 1200, "reason": "r"}}',
        "3/propose": '{"kind": "final", "answer": "Done."}',
    }

    def perform(key: str, effect: Request) -> Json:
        if isinstance(effect, Ask):
            return {"text": said[key]}
        if isinstance(effect, Use):
            return {"status": "ok"}
        action: Any = effect.action  # type: ignore[union-attr]
        high = action.get("args", {}).get("amount_minor", 0) > 100000 and not effect.granted  # type: ignore[union-attr]
        word = "escalate" if high else "approve"
        deciding = dict.fromkeys(SHOWN, "test")
        reply = {"decision": word, "allows": not high, "deciding": deciding, "action": action}
        return {**reply, "key": key}

    return MemoryWorld(perform)


@pytest.mark.proves("F2")
def test_crashing_at_every_write_ends_in_the_same_place() -> None:
    def run(crash_at: int | None) -> tuple[Strand, MemoryWorld]:
        world = refund_world()
        world.crash_at = crash_at
        for _ in range(10):
            try:
                strand = go(flow_of_supervisor(), world)
                if strand.outcome:
                    return strand, world
                world.decide(decision="adjusted", granted_minor=80000, revised=True)
            except Crash:
                world.crash_at = None
                # The next worker repeats a request that a crash left unanswered.
                world.waiting = {
                    k: e for k, e in world.waiting.items() if world.steps[k][1] is None
                }
        raise AssertionError("it never ended")

    calm, calm_world = run(None)
    assert calm_world.writes > 10
    for crash_at in range(1, calm_world.writes + 1):
        strand, world = run(crash_at)
        assert strand.outcome == calm.outcome
        assert world.steps == calm_world.steps
        assert len(world.calls) <= len(calm_world.calls) + 1


def test_a_strand_that_waits_does_not_hold_up_its_siblings() -> None:
    def asks() -> Flow:
        return (yield Escalate("person", "question", {}, {}))

    def uses() -> Flow:
        return (yield Use("work", "sales", {}, ""))

    def both() -> Flow:
        return (yield Together("both", {"ask": asks(), "use": uses()}))

    world = MemoryWorld(lambda key, effect: 7)
    assert go(both(), world).outcome is None
    assert world.steps["both/use/work"][1] == Reply(7)

    world.decide(decision="approved")
    strand = go(both(), world)

    assert strand.outcome is not None
    assert strand.outcome.value["use"].value == 7
    assert strand.outcome.value["ask"].value["decision"] == "approved"


def test_waiting_strand_keeps_its_siblings_work() -> None:
    soon, late = timedelta(hours=1), timedelta(hours=2)
    waits = {"all/a/work": late, "all/b/work": soon}

    def one() -> Flow:
        return (yield Use("work", "t", {}, ""))

    def two() -> Flow:
        yield Use("first", "t", {}, "")
        return (yield Use("second", "t", {}, ""))

    def all_of_them() -> Flow:
        return (yield Together("all", {"a": one(), "b": one(), "c": two()}))

    def perform(key: str, effect: Request) -> Json:
        if key in waits:
            raise Later(waits[key])
        return 1

    world = MemoryWorld(perform)
    with pytest.raises(Later) as raised:
        go(all_of_them(), world)
    assert soon - timedelta(minutes=1) < raised.value.pause <= soon
    assert list(world.done) == ["all/c/first", "all/c/second"]

    waits.clear()
    strand = go(all_of_them(), world)

    assert strand.outcome is not None
    assert world.calls.count("all/c/second") == 1


def test_a_flow_goes_on_though_another_asks_for_something_alone() -> None:
    gone_on = asyncio.Event()

    class Slow(MemoryWorld):
        async def do(self, key: str, effect: Request) -> Reply:
            if key == "both/first/two":  # alone, while the second flow's request is under way
                await gone_on.wait()
            if key == "both/second/one":
                await asyncio.sleep(0.01)
            if key == "both/second/two":
                gone_on.set()
            return await super().do(key, effect)

    def one_by_one() -> Flow:
        for label in ("one", "two"):
            yield Use(label, "t", {}, "")

    def both() -> Flow:
        return (yield Together("both", {"first": one_by_one(), "second": one_by_one()}))

    world = Slow(lambda key, effect: 7)

    strand = asyncio.run(asyncio.wait_for(drive(both(), world), 60))

    assert strand.outcome is not None
    assert len(world.calls) == 4


def test_a_replay_that_asks_for_something_else_has_diverged() -> None:
    def asks(version: int) -> Flow:
        return (yield Ask("ask", "worker", {"version": version}))

    world = MemoryWorld(lambda key, effect: 1)
    go(asks(1), world)

    with pytest.raises(Diverged):
        go(asks(2), world)


def test_a_flow_that_waits_for_a_person_gives_up_its_place() -> None:
    def asks() -> Flow:
        return (yield Escalate("person", "action", {}, {}))

    def works() -> Flow:
        return (yield Use("work", "t", {}, ""))

    def both() -> Flow:
        return (yield Together("all", {"asks": asks(), "works": works()}, at_once=1))

    world = MemoryWorld(lambda key, effect: 7)
    assert go(both(), world).outcome is None
    assert "all/works/work" in world.done

    world.decide(decision="approved", by="rita")
    strand = go(both(), world)

    assert strand.outcome is not None
    assert strand.outcome.value["works"].value == 7


def test_a_reply_is_kept_while_a_sibling_is_busy_and_only_then() -> None:
    kept: list[list[str]] = []

    class Slow(MemoryWorld):
        async def do(self, key: str, effect: Request) -> Reply:
            await asyncio.sleep(0.05 if "slow" in key else 0)
            return await super().do(key, effect)

        async def keep(self) -> None:
            kept.append(list(self.done))

    def one(label: str) -> Flow:
        return (yield Use(label, "t", {}, ""))

    def flow() -> Flow:
        yield Use("before", "t", {}, "")
        yield Together("all", {"quick": one("quick"), "slow": one("slow")})
        return (yield Use("after", "t", {}, ""))

    go(flow(), Slow(lambda k, e: k))

    assert kept == [["before", "all/quick/quick"]]


def test_cancelled_drive_ends_despite_a_steps_mistake() -> None:
    class Deaf(MemoryWorld):
        async def do(self, key: str, effect: Request) -> Reply:
            # As when a call is cut at its deadline though its reply has just come.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0 if self.calls else 60)
            return await super().do(key, effect)

    def flow() -> Flow:
        yield Ask("one", "worker", {})
        yield Ask("two", "worker", {})

    world = Deaf(lambda key, effect: {"text": "said"})

    async def broken_off() -> None:
        driving = asyncio.ensure_future(drive(flow(), world))
        await asyncio.sleep(0)
        driving.cancel()
        await driving

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(broken_off())

    assert world.calls == ["one"]
