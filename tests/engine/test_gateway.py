"""Intent, call, result: the gateway when circumstances change or a call fails."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from threading import Event, Semaphore
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from agents.core.requests import EffectState, EscalationState, RunState
from agents.core.reviews import OutcomeUnknown
from agents.desks.refunds import billing
from agents.engine.journal import Journal
from agents.engine.runtime import crashpoints
from agents.engine.runtime.database import TOOL_THREADS
from agents.engine.tools import admission, gateway
from agents.models import Effect, Escalation, Run, Step
from agents.runs import launching
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from tests.engine.scene import (
    REFUND_500,
    Scene,
    decide_request,
    go,
    in_thread,
    mails,
    payments,
    refund_by_phone,
    set_scene,
)

TOOLS = DESKS["refunds"].all_tools

pytestmark = pytest.mark.django_db(transaction=True)
LONGEST = 60  # seconds to wait for a thread on a busy machine


@pytest.fixture
def scene() -> Iterator[Scene]:
    yield set_scene()
    crashpoints.watch(None)


def exchange(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    """Replace a tool's function, which stands for an outside system."""
    monkeypatch.setitem(TOOLS, name, replace(TOOLS[name], **parts))


@pytest.mark.both
@pytest.mark.proves("I15")
@pytest.mark.usefixtures("_nothing_takes_long")
def test_refund_after_the_review_is_seen_before_the_call(scene: Scene) -> None:
    run = scene.launch(REFUND_500)

    def somebody_else_refunds(point: str) -> None:
        if point == "journal.before_commit":  # the first is that of the refund's intent
            crashpoints.watch(None)
            refund_by_phone(run)

    crashpoints.watch(somebody_else_refunds)
    run = go(run)

    assert (run.state, run.stop_reason) == (
        RunState.STOPPED,
        "supervisor_block:charge_fully_refunded",
    )
    assert payments(run) == [120000]
    assert run.steps.get(key="2/execute").failed == "review_changed"


def commits_before_calls(run: Run) -> list[int]:
    """Return the journal's number of commits before each tool call."""
    points: list[str] = []
    crashpoints.watch(points.append)
    go(run)
    calls = [place for place, point in enumerate(points) if point == "gateway.before_call"]
    return [points[:place].count("journal.after_commit") for place in calls]


@pytest.mark.both
@pytest.mark.usefixtures("_nothing_takes_long")
def test_a_commit_is_made_before_a_write_and_none_before_a_read(scene: Scene) -> None:
    calls = commits_before_calls(scene.launch(REFUND_500))

    # The customer is read, the refund paid and the mail sent; then the run ends.
    assert calls == [0, 1, 2]


@pytest.mark.both
@pytest.mark.usefixtures("_nothing_takes_long")
def test_what_nobody_could_ask_about_later_is_committed_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(monkeypatch, "issue_refund", find=None)

    calls = commits_before_calls(scene.launch(REFUND_500))

    assert calls == [0, 1, 3]


def hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the call of a refund take longer than its deadline."""

    def hangs(context: DeskCall, **args: Any) -> Any:
        wait_until(Escalation.objects.exists)
        return {}

    exchange(monkeypatch, "issue_refund", function=hangs, timeout=0.05)


def wait_until(condition: Callable[[], bool]) -> None:
    """Hold a tool's thread until a condition holds in the database."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)


@pytest.mark.proves("I8", "F33")
def test_a_refund_whose_call_hangs_is_put_to_a_person(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(monkeypatch)
    run = go(scene.launch(REFUND_500))

    assert run.state == RunState.WAITING
    asked = Escalation.objects.get(run=run)
    assert asked.kind == "effect_unknown"
    assert Effect.objects.get(run=run).state == EffectState.UNKNOWN
    assert run.steps.get(key="2/execute").seconds >= 0.05


@pytest.mark.parametrize(
    ("happened", "state", "stop_reason"),
    [(True, EffectState.DONE, ""), (False, EffectState.REFUSED, "effect_denied:issue_refund")],
)
def test_a_person_settles_what_nobody_could_tell(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    happened: bool,
    state: EffectState,
    stop_reason: str,
) -> None:
    hang(monkeypatch)
    run = go(scene.launch(REFUND_500))
    asked = Escalation.objects.get(run=run)

    decide_request(asked, scene.rita, approve=happened, comment="looked it up")
    run = go(run)

    assert Effect.objects.get(run=run, tool="issue_refund").state == state
    if stop_reason:
        assert run.stop_reason == stop_reason
    assert Escalation.objects.get(pk=asked.pk).state in (
        EscalationState.APPROVED,
        EscalationState.REJECTED,
    )


@pytest.mark.both
@pytest.mark.proves("F34")
def test_late_payment_overrules_a_persons_no(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    real = TOOLS["issue_refund"].function

    def pays_late(context: DeskCall, **args: Any) -> Any:
        wait_until(Escalation.objects.exists)
        return real(context, **args)

    exchange(monkeypatch, "issue_refund", function=pays_late, timeout=0.05)
    run = go(scene.launch(REFUND_500))  # its threads end before it returns, so it has paid
    asked = Escalation.objects.get(run=run)

    decide_request(asked, scene.rita, approve=False, comment="no")

    assert payments(run) == [50000]
    assert Effect.objects.get(run=run, tool="issue_refund").state == EffectState.DONE
    reply = run.steps.get(key="2/execute").reply
    assert reply is not None
    assert reply["refund"]["amount_minor"] == 50000


@pytest.mark.both
def test_what_was_recorded_since_outweighs_a_persons_word(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, paid_late = TOOLS["issue_refund"].function, dict[str, Any]()

    def pays(context: DeskCall, **args: Any) -> Any:
        paid_late.update(real(context, **args))
        raise OutcomeUnknown

    exchange(monkeypatch, "issue_refund", function=pays, find=None)
    run = go(scene.launch(REFUND_500))
    # As recorded by a worker that lost the run during its call.
    Effect.objects.filter(run=run).update(state=EffectState.DONE, result=paid_late)

    scene.decide(run, approve=False)

    assert Effect.objects.get(run=run).state == EffectState.DONE
    assert run.steps.get(key="2/execute").reply == paid_late


@pytest.mark.proves("F35")
@pytest.mark.parametrize(
    ("said", "stop_reason"),
    [
        ([1], "tool_bad_result:issue_refund"),
        (None, "tool_bad_result:issue_refund"),
        ({"status": "ok"}, "tool_bad_result:issue_refund"),
        ({"status": "ok", "refund": {"amount_minor": -1}}, "tool_bad_result:issue_refund"),
    ],
)
def test_result_out_of_contract_stops_and_releases(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, said: Any, stop_reason: str
) -> None:
    exchange(monkeypatch, "issue_refund", function=lambda context, **args: said)

    run = go(scene.launch(REFUND_500))

    assert run.stop_reason == stop_reason
    assert payments(run) == []
    assert Effect.objects.get(run=run).state == EffectState.REFUSED
    key = Effect.objects.get(run=run).key
    receipt = billing.find(key=key)
    assert receipt is not None
    assert receipt.state == "released"


def nest_lists(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


UNFIT = {
    "megabytes": "x" * 5_000_000,
    "nested": nest_lists(30),
    "endless": nest_lists(5000),
    "not finite": float("nan"),
    "no JSON": object(),
    "a NUL": "a\x00b",
    "half a pair": "\ud800",
}


@pytest.mark.proves("F35")
@pytest.mark.parametrize("said", UNFIT.values(), ids=UNFIT)
def test_a_result_that_cannot_be_kept_stops_the_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    exchange(monkeypatch, "get_refund_context", function=lambda context, **args: {"status": said})

    run = go(scene.launch(REFUND_500))

    stopped = (RunState.STOPPED, "tool_bad_result:get_refund_context")
    assert (run.state, run.stop_reason) == stopped


@pytest.mark.proves("F35")
@pytest.mark.parametrize("said", UNFIT.values(), ids=UNFIT)
def test_payment_with_an_unstorable_receipt_is_found_by_key(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    real = TOOLS["issue_refund"].function

    def pays(context: DeskCall, **args: Any) -> Any:
        return {**real(context, **args), "receipt": said}

    exchange(monkeypatch, "issue_refund", function=pays)
    run = go(scene.launch(REFUND_500))

    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    assert (payments(run), mails(run)) == ([50000], [50000])


@pytest.mark.proves("F35")
def test_unstorable_receipt_needs_a_person(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    real = TOOLS["issue_refund"].function
    endless = {"status": "ok", "receipt": UNFIT["megabytes"]}

    def pays(context: DeskCall, **args: Any) -> Any:
        return {**real(context, **args), **endless}

    exchange(monkeypatch, "issue_refund", function=pays, find=lambda key: endless)
    run = go(scene.launch(REFUND_500))

    assert run.state == RunState.WAITING
    assert Escalation.objects.get(run=run).kind == "effect_unknown"
    assert payments(run) == [50000]


@pytest.mark.proves("F35")
def test_what_a_tool_raises_is_neither_kept_nor_logged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(context: DeskCall, **args: Any) -> Any:
        raise ConnectionError("postgresql://desk:hunter2@db.internal")

    exchange(monkeypatch, "get_refund_context", function=raises)
    run = go(scene.launch(REFUND_500))

    assert run.stop_reason == "tool_error:get_refund_context"
    kept = [*run.events.values_list("facts", flat=True), *run.steps.values_list("reply", "failed")]
    assert "hunter2" not in caplog.text
    assert "hunter2" not in str(kept)


@pytest.mark.proves("I8")
def test_a_tool_that_raises_after_it_paid_is_found_by_its_key(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TOOLS["issue_refund"].function

    def pays_then_raises(context: DeskCall, **args: Any) -> Any:
        real(context, **args)
        raise ConnectionError("the answer was lost")

    exchange(monkeypatch, "issue_refund", function=pays_then_raises)
    run = go(scene.launch(REFUND_500))

    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    assert payments(run) == [50000]
    assert mails(run) == [50000]


@pytest.mark.both
def test_run_cancelled_during_a_call_records_its_outcome(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    calls = 0

    def cancel_after_second(point: str) -> None:
        nonlocal calls
        calls += point == "gateway.after_call"
        if point == "gateway.after_call" and calls == 2:
            at = timezone.now()
            in_thread(lambda: launching.cancel(run_id=run.pk, by=scene.omar, reason="stop", at=at))

    crashpoints.watch(cancel_after_second)
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "cancelled")
    assert payments(run) == [50000]
    assert Effect.objects.get(run=run).state == EffectState.DONE
    assert mails(run) == []


def fail_the_commit_after(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make the database fail once, in the first commit after this tool's step ended."""
    finish = Journal.finish

    def broken(at: object) -> Any:
        raise OperationalError("server closed the connection unexpectedly")

    def finish_then_break(self: Journal, step: Step, *args: Any, **facts: Any) -> Any:
        reply = finish(self, step, *args, **facts)
        if facts.get("tool") == name:
            monkeypatch.setattr(Journal, "finish", finish)
            self.under_lock(broken)
        return reply

    monkeypatch.setattr(Journal, "finish", finish_then_break)


def again(run: Run) -> Run:
    """Continue a run that was put back into the queue for a while."""
    assert Run.objects.filter(pk=run.pk, state=RunState.QUEUED).update(wake_at=None)
    return go(run)


@pytest.mark.both
def test_mail_in_the_ledger_is_neither_asked_about_nor_resent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(monkeypatch, "send_refund_email", find=None)
    fail_the_commit_after(monkeypatch, "send_refund_email")

    run = again(go(scene.launch(REFUND_500)))

    assert (run.stop_reason, mails(run)) == ("success", [50000])
    assert not Escalation.objects.filter(run=run).exists()


@pytest.mark.both
def test_what_the_ledger_says_was_refused_is_not_tried_once_more(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = TOOLS["send_refund_email"].function, list[str]()

    def refuses_once(context: DeskCall, **args: Any) -> Any:
        calls.append(context.key)
        if len(calls) == 1:
            return {"status": "error", "error": "email_address_unusable:42"}
        return real(context, **args)

    exchange(monkeypatch, "send_refund_email", function=refuses_once)
    fail_the_commit_after(monkeypatch, "send_refund_email")

    run = again(go(scene.launch(REFUND_500)))

    mail = Effect.objects.get(run=run, tool="send_refund_email")
    assert (mail.state, mail.result) == (EffectState.REFUSED, run.steps.get(key="3/execute").reply)
    assert (len(calls), mails(run)) == (1, [])


def test_a_call_that_only_reads_is_never_put_to_a_person(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(context: DeskCall, **args: Any) -> Any:
        raise OutcomeUnknown

    exchange(monkeypatch, "get_refund_context", function=unknown)

    run = go(scene.launch(REFUND_500))

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "tool_error:get_refund_context")


def test_a_run_that_fails_by_our_fault_keeps_what_it_did(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*args: Any, **named: Any) -> Any:
        raise RuntimeError("a fault of ours")

    real = TOOLS["issue_refund"].function

    def pay_then_break(context: DeskCall, **args: Any) -> Any:
        reply = real(context, **args)
        monkeypatch.setattr(admission, "fetch_facts", breaks)
        return reply

    exchange(monkeypatch, "issue_refund", function=pay_then_break)
    run = go(scene.launch(REFUND_500))

    assert (run.state, run.stop_reason) == (RunState.FAILED, "internal_error")
    assert Effect.objects.get(run=run).state == EffectState.DONE


def test_reply_in_time_counts_for_a_late_worker(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, loops = TOOLS["issue_refund"].function, list[asyncio.AbstractEventLoop]()
    under_way: list[Future[Any]] = []
    submit = gateway.TOOL_THREADS.submit

    def submit_and_keep(work: Callable[[], Any]) -> Future[Any]:
        under_way.append(submit(work))
        return under_way[-1]

    def busy_until_long_after() -> None:
        under_way[-1].result(30)
        monkeypatch.setattr(loops[0], "time", lambda: time.monotonic() + 3600)

    def while_the_loop_is_busy(context: DeskCall, **args: Any) -> Any:
        loops[0].call_soon_threadsafe(busy_until_long_after)
        return real(context, **args)

    def meet(point: str) -> None:
        if point == "gateway.before_call":
            loops[:] = [asyncio.get_running_loop()]

    monkeypatch.setattr(gateway, "TOOL_THREADS", SimpleNamespace(submit=submit_and_keep))
    exchange(monkeypatch, "issue_refund", function=while_the_loop_is_busy, timeout=30.0)
    crashpoints.watch(meet)

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, payments(run)) == ("success", [50000])


@contextmanager
def no_thread_free() -> Iterator[Callable[[], None]]:
    """Have other calls hold all threads for tools, until the block ends or says so."""
    may_end, begun = Event(), Semaphore(0)

    def hold() -> None:
        begun.release()
        may_end.wait(LONGEST)

    others = [TOOL_THREADS.submit(hold) for _ in range(TOOL_THREADS.threads)]
    for _ in others:
        assert begun.acquire(timeout=LONGEST)
    try:
        yield may_end.set
    finally:
        may_end.set()
        for other in others:
            other.result(LONGEST)


def test_the_wait_for_a_thread_is_not_part_of_a_calls_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, submit = scene.launch(REFUND_500), TOOL_THREADS.submit
    with no_thread_free() as let_go:

        def submit_and_wait(work: Callable[[], Any]) -> Future[Any]:
            asyncio.get_running_loop().call_later(2.3, let_go)
            return submit(work)

        monkeypatch.setattr(gateway, "TOOL_THREADS", SimpleNamespace(submit=submit_and_wait))
        for name in ("get_refund_context", "issue_refund"):
            exchange(monkeypatch, name, timeout=2.0)
        run = go(run)

    assert (run.stop_reason, payments(run)) == ("success", [50000])


@pytest.mark.both
def test_payment_without_a_thread_was_not_made(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, submit, calls = scene.launch(REFUND_500), TOOL_THREADS.submit, count(1)
    with ExitStack() as held:

        def submit_while_held(work: Callable[[], Any]) -> Future[Any]:
            monkeypatch.setattr(gateway, "QUEUE_SECONDS", 0.05)  # from the payment on
            if next(calls) == 2:  # the payment, after the customer was looked up
                let_go = held.enter_context(no_thread_free())
                monkeypatch.setattr(gateway.ToolCall, "give_up", lambda call: let_go())
            return submit(work)

        monkeypatch.setattr(gateway, "TOOL_THREADS", SimpleNamespace(submit=submit_while_held))
        run = go(run)

    assert (run.stop_reason, payments(run)) == ("tool_timeout:issue_refund", [])
    assert Effect.objects.get(run=run).state == EffectState.REFUSED


def test_a_lookup_that_breaks_tells_nothing_so_a_person_is_asked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_down(*args: Any, **named: Any) -> Any:
        raise ConnectionError("nobody answers")

    exchange(monkeypatch, "issue_refund", function=is_down, find=is_down)
    run = go(scene.launch(REFUND_500))

    assert Escalation.objects.get(run=run).kind == "effect_unknown"
    scene.decide(run, approve=False)  # the key still tells nothing
    assert go(run).stop_reason == "effect_denied:issue_refund"
    assert Effect.objects.get(run=run).state == EffectState.REFUSED


def test_hanging_look_up_ends_after_a_calls_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*args: Any, **named: Any) -> Any:
        raise ConnectionError("nobody answers")

    def hangs(key: str) -> Any:
        wait_until(Escalation.objects.exists)

    exchange(monkeypatch, "issue_refund", function=breaks, find=hangs, timeout=0.05)

    run = go(scene.launch(REFUND_500))

    assert run.state == RunState.WAITING
    assert Escalation.objects.get(run=run).kind == "effect_unknown"
