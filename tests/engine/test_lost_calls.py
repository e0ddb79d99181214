"""A call whose far side may still be at work when the connection or the worker is gone."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import ProgrammingError
from django.utils import timezone

from agents.core.requests import ENDED, EffectState, RunState
from agents.core.reviews import Touch
from agents.engine.upkeep import sweep as sweeping
from agents.engine.upkeep.sweep import ORPHANED, sweep
from agents.models import Effect, Escalation, Role, Run
from agents.overview.pages import attention
from agents.runs import launching
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from tests.engine.far_side import NAME, FarSide, far_side, letter_tool, wait_no_time
from tests.engine.scene import REFUND_500, Scene, go, mails, payments, recover
from tests.engine.test_cut_calls import cut, cut_off
from tests.processes import LONGEST, running

TOOLS = DESKS["refunds"].all_tools

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Iterator[FarSide]:
    """Send letters by a tool that is ONCE."""
    with far_side() as far:
        monkeypatch.setitem(TOOLS, NAME, letter_tool(far.port, Touch.ONCE))
        yield far


def letter_of(run: Run) -> Effect:
    return Effect.objects.get(run=run, tool=NAME)


def asked_about(run: Run) -> list[tuple[str, str]]:
    found = Escalation.objects.filter(run=run).values_list("kind", "action")
    return [(kind, action["name"]) for kind, action in found]


@pytest.mark.proves("F45")
def test_late_finding_of_a_once_tool_counts(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = wait_no_time(monkeypatch, once.finish)

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, mails(run), asked_about(run)) == ("success", [50000], [])
    assert (len(once.calls), waited) == (1, [TOOLS[NAME].timeout])


@pytest.mark.proves("I8", "F45")
def test_once_tool_without_a_finding_needs_a_person(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = wait_no_time(monkeypatch)

    run = go(scene.launch(REFUND_500))

    assert (run.state, letter_of(run).state) == (RunState.WAITING, EffectState.UNKNOWN)
    assert asked_about(run) == [("effect_unknown", NAME)]
    assert (len(once.calls), waited) == (1, [TOOLS[NAME].timeout])
    assert needs(scene) == [f"look it up and answer request {Escalation.objects.get().pk}"]

    once.finish()  # while the person looks it up, who then answers too soon
    scene.decide(run, approve=False)

    assert (go(run).stop_reason, letter_of(run).state) == ("success", EffectState.DONE)
    assert len(once.calls) == 1


def raises(context: DeskCall, **args: Any) -> Any:
    raise ValueError("the far side's client has errors of its own")


def tells_nothing(context: DeskCall, **args: Any) -> Any:
    return "accepted"


@pytest.mark.parametrize("call", [raises, tells_nothing])
def test_no_other_end_of_a_tool_that_is_once_is_taken_for_a_no(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    wait_no_time(monkeypatch)
    monkeypatch.setitem(TOOLS, NAME, replace(TOOLS[NAME], function=call))

    run = go(scene.launch(REFUND_500))

    assert (run.state, letter_of(run).state) == (RunState.WAITING, EffectState.UNKNOWN)


@pytest.mark.both
@pytest.mark.proves("I8", "I28")
@pytest.mark.slow
@pytest.mark.parametrize("finishes", [True, False])
def test_once_tool_is_not_repeated_after_a_kill(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch, finishes: bool
) -> None:
    run, pids = scene.launch(REFUND_500), list[int]()
    once.on_call = lambda: os.kill(pids[0], signal.SIGKILL)
    given = ("-m", "tests.engine.killed_worker", str(once.port), "once", str(run.pk))
    with running(*given) as worker:
        pids.append(worker.pid)
        assert worker.wait(LONGEST) == -signal.SIGKILL
    waited = wait_no_time(monkeypatch, once.finish if finishes else lambda: None)

    recover(run.pk)
    run = go(run)

    assert (len(once.calls), waited) == (1, [TOOLS[NAME].timeout])
    if finishes:
        assert (run.stop_reason, mails(run), asked_about(run)) == ("success", [50000], [])
    else:
        assert (run.state, mails(run)) == (RunState.WAITING, [])
        assert asked_about(run) == [("effect_unknown", NAME)]


@pytest.mark.proves("F45")
def test_a_call_that_times_out_on_its_own_is_lost_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients of many systems raise errors of their own when an answer does not come."""
    paid: list[Callable[[], object]] = []
    real = TOOLS["issue_refund"]

    def gives_up(context: DeskCall, **args: Any) -> Any:
        paid.append(lambda: real.function(context, **args))
        raise TimeoutError("no answer for 5 seconds")

    monkeypatch.setitem(TOOLS, "issue_refund", replace(real, function=gives_up))
    waited = wait_no_time(monkeypatch, lambda: paid[0]())

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, payments(run), mails(run)) == ("success", [50000], [50000])
    assert (len(paid), waited) == (1, [real.timeout])


@pytest.mark.proves("F45")
def test_always_cut_refund_is_found_later(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = TOOLS["issue_refund"], list[Callable[[], object]]()

    def call(context: DeskCall, **args: Any) -> Any:
        calls.append(lambda: real.function(context, **args))
        return cut_off()

    monkeypatch.setitem(TOOLS, "issue_refund", replace(real, function=call))
    wait_no_time(monkeypatch, lambda: [pays() for pays in calls])

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, payments(run), len(calls)) == ("success", [50000], 3)


@pytest.mark.proves("I30")
def test_what_was_stopped_during_a_call_is_not_called_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_no_time(monkeypatch)
    admin = scene.add("admin", Role.ADMIN)

    def press() -> None:
        scene.kill(admin, "it misbehaves")

    keys = cut(monkeypatch, "issue_refund", times=1, after=False, meanwhile=press)

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, payments(run), len(keys)) == ("killed", [], 1)
    assert Effect.objects.get(run=run).state == EffectState.REFUSED


def cancel(scene: Scene) -> None:
    for run in Run.objects.exclude(state__in=ENDED):
        launching.cancel(run_id=run.pk, by=scene.omar, reason="by phone", at=timezone.now())


@pytest.mark.proves("F45")
def test_what_was_cancelled_during_a_call_is_not_called_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = partial(cancel, scene)
    keys = cut(monkeypatch, "issue_refund", times=1, after=False, meanwhile=stop)

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, payments(run), len(keys)) == ("cancelled", [], 1)
    age(monkeypatch, by=2 * ORPHANED)
    sweep()
    assert Effect.objects.get(run=run).state == EffectState.REFUSED


def age(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    """Let runs have ended longer ago: what has ended cannot be changed."""
    monkeypatch.setattr(sweeping, "ORPHANED", ORPHANED - by)


@pytest.mark.both
@pytest.mark.proves("I8")
def test_sweep_does_not_trust_not_found_of_a_once_tool(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_no_time(monkeypatch, partial(cancel, scene))
    run = go(scene.launch(REFUND_500))
    assert (run.stop_reason, letter_of(run).state) == ("cancelled", EffectState.INTENDED)
    age(monkeypatch, by=2 * ORPHANED)

    sweep()

    assert letter_of(run).state == EffectState.UNKNOWN
    assert needs(scene) == ["look it up, and answer on the page of its run"]


def needs(scene: Scene) -> list[str]:
    found, _ = attention([scene.workspace.pk], since=timezone.now(), today=timezone.now())
    return [one.matter.partition("; ")[2] for one in found if one.kind == "unknown"]


@pytest.mark.both
@pytest.mark.proves("F45")
def test_a_sweep_asks_no_earlier_than_a_tool_may_take(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(TOOLS[NAME], touch=Touch.SAFE, timeout=300.0)
    monkeypatch.setitem(TOOLS, NAME, slow)
    once.on_call = partial(cancel, scene)
    run = go(scene.launch(REFUND_500))
    age(monkeypatch, by=2 * ORPHANED)

    sweep()
    assert letter_of(run).state == EffectState.INTENDED

    age(monkeypatch, by=2 * ORPHANED + timedelta(seconds=slow.timeout))
    sweep()
    assert letter_of(run).state == EffectState.REFUSED


@pytest.mark.both
@pytest.mark.parametrize("error", [ConnectionRefusedError("away"), ProgrammingError("no table")])
def test_failing_look_up_is_logged_rarely_and_blocks_nothing(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch, caplog: Any, error: Exception
) -> None:
    wait_no_time(monkeypatch, partial(cancel, scene))
    broken, other = (go(scene.launch(REFUND_500)) for _ in range(2))
    real, key = TOOLS[NAME], letter_of(broken).key
    assert real.find

    def find(asked: str) -> Any:
        if asked == key:
            raise error
        return {"status": "ok"}

    monkeypatch.setitem(TOOLS, NAME, replace(real, find=find))
    monkeypatch.setattr(sweeping, "_told_at", {})
    measured: list[bool] = []
    monkeypatch.setitem(sweeping._LATER, "measure the database", lambda: measured.append(True))
    age(monkeypatch, by=2 * ORPHANED)

    for _ in range(3):
        sweep()

    assert [letter_of(run).state for run in (broken, other)] == ["intended", "done"]
    assert [one.levelname for one in caplog.records if one.exc_info] == ["ERROR"]
    assert measured == [True] * 3
