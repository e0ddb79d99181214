"""Why a run stops, when it is neither the policy nor a person: budgets, the model, ourselves."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from agents import results
from agents.core.requests import Flow, RunState
from agents.desks.refunds.limits import STRICT
from agents.engine import journal
from agents.models import Run
from agents.patterns import PATTERNS, Brief, Notes
from agents.policies.words import end_sentence
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from tests.commands.test_run_pattern import command
from tests.conformance import harness
from tests.conformance.replay_server import ReplayServer
from tests.engine.scene import REFUND_500, Scene, claimable_runs, fresh, go, mails, payments
from tests.privacy.searching import places_of

TOOLS = DESKS["refunds"].all_tools

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("sources_answer_at_once"),
]

CONTEXT = '{"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}'
REFUND = (
    '{"kind": "tool", "name": "issue_refund", '
    '"args": {"user_id": 42, "amount_usd": 500, "reason": "r"}}'
)
MAIL = (
    '{"kind": "tool", "name": "send_refund_email", '
    '"args": {"user_id": 42, "amount_usd": 500, "message": "paid"}}'
)
TOOLS_BEFORE = dict(TOOLS)
FINAL = '{"kind": "final", "answer": "Done."}'
DEAR = {"prompt_tokens": 1000, "completion_tokens": 1000}


@pytest.fixture
def load_script() -> Iterator[Callable[..., ReplayServer]]:
    """Return a function that makes the model follow a script."""
    with (
        harness.replaying() as server,
        override_settings(
            OPENAI_BASE_URL=server.base_url("script"),
            OPENAI_API_KEY="any",
            OPENAI_TIMEOUT_SECONDS=30,
        ),
    ):

        def load(*llm: Any) -> ReplayServer:
            server.load("script", list(llm))
            return server

        yield load


@pytest.mark.proves("F29")
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"fault": "http", "status": 400}, "llm_error"),
        ({"text": None, "refusal": "no"}, "llm_refused"),
        ({"text": FINAL, "finish_reason": "length"}, "llm_truncated"),
    ],
)
def test_what_is_wrong_with_the_model_is_named(
    scene: Scene, load_script: Callable[..., ReplayServer], reply: Any, reason: str
) -> None:
    load_script(CONTEXT, reply)

    run = go(scene.launch(REFUND_500))

    assert (run.state, run.stop_reason) == (RunState.STOPPED, reason)
    result = results.result(run)
    assert (result["phase"], len(result["history"])) == ("worker", 1)


def test_an_unknown_end_is_kept_until_it_is_erased(
    scene: Scene, load_script: Callable[..., ReplayServer]
) -> None:
    word = f"see 4111 1111 1111 1111\n\0 {'banana' * 9}"
    load_script(CONTEXT, {"text": FINAL, "finish_reason": word})

    run = go(scene.launch(REFUND_500))

    code, _, kept = run.stop_reason.partition(":")
    assert (code, kept) == ("llm_ended", f"see [card number] \ufffd {'banana' * 9}"[:40])
    assert "is not known (see [card number]" in end_sentence(run.stop_reason)
    assert not [one for one in run.events.all() if "banana" in str(one.facts)]
    command("erase_subject", "demo", "42", "--reason", "asked for by letter 7")
    assert command("verify_audit").code == 0
    assert (fresh(run).stop_reason, places_of("banana")) == ("llm_ended", [])


@pytest.mark.proves("I27", "F27")
def test_a_call_that_is_made_again_counts_its_attempts(
    scene: Scene, load_script: Callable[..., ReplayServer]
) -> None:
    server = load_script({"fault": "http_500", "times": 2}, CONTEXT, FINAL)

    run = go(scene.launch(REFUND_500))

    assert run.stop_reason == "success"
    step = run.steps.get(key="1/propose")
    assert step.attempts == 3
    assert step.tokens_lost == 0  # a failing server's cost is not the run's
    assert run.events.filter(kind="step.retried").count() == 2
    assert server.sessions["script"].requests == 5  # the first asked whether it calls tools


@pytest.mark.proves("F26")
def test_long_rate_limit_holds_no_worker(
    scene: Scene, load_script: Callable[..., ReplayServer]
) -> None:
    load_script({"fault": "http_429", "retry_after": 30, "times": 1}, CONTEXT, FINAL)
    run = go(scene.launch(REFUND_500))

    assert (run.state, run.lease_owner) == (RunState.QUEUED, "")
    assert run.wake_at is not None
    assert timedelta(seconds=20) < run.wake_at - timezone.now() <= timedelta(seconds=30)
    assert run.pk not in claimable_runs(10)
    Run.objects.filter(pk=run.pk).update(wake_at=timezone.now() - timedelta(seconds=1))
    assert run.pk in claimable_runs(10)

    assert go(run).stop_reason == "success"


@pytest.mark.proves("I27")
def test_tokens_are_a_budget(scene: Scene, load_script: Callable[..., ReplayServer]) -> None:
    load_script({"text": CONTEXT, "usage": DEAR}, {"text": REFUND, "usage": DEAR}, FINAL)

    run = go(scene.launch_under(replace(STRICT, max_tokens=3500)))

    assert run.stop_reason == "max_tokens"
    assert "phase" not in results.result(run)
    assert payments(run) == []


def test_cost_is_a_budget_where_the_price_is_known(
    scene: Scene, load_script: Callable[..., ReplayServer]
) -> None:
    script = [{"text": text, "usage": DEAR} for text in (CONTEXT, REFUND, FINAL)]
    with override_settings(OPENAI_MODEL="gpt-4.1-mini"):
        load_script(*script)
        known = go(scene.launch_under(replace(STRICT, max_cost_micro_usd=1)))
    with override_settings(OPENAI_MODEL="a-model-nobody-knows"):
        load_script(CONTEXT, {"fault": "http", "status": 400})
        unknown = go(scene.launch_under(replace(STRICT, max_cost_micro_usd=1)))

    assert known.stop_reason == "max_cost"
    assert (known.steps.get(key="1/propose").cost_micro_usd or 0) > 1
    assert unknown.stop_reason == "llm_error"
    assert unknown.steps.get(key="1/propose").cost_micro_usd is None


@pytest.mark.proves("I27")
def test_time_is_a_budget_and_waiting_for_a_person_costs_none(
    scene: Scene, load_script: Callable[..., ReplayServer]
) -> None:
    load_script(CONTEXT, {"text": REFUND, "delay_s": 0.4}, FINAL)
    late = go(scene.launch_under(replace(STRICT, max_seconds=0.3)))
    assert (late.stop_reason, payments(late)) == ("max_seconds", [])

    load_script(CONTEXT, REFUND.replace("500", "1200"), FINAL)
    waits = go(scene.launch_under(replace(STRICT, max_seconds=60)))
    waits.steps.update(begun_at=timezone.now() - timedelta(hours=3))
    scene.decide(waits)
    waits = go(waits)
    assert (waits.stop_reason, payments(waits)) == ("success", [80000])


@pytest.mark.proves("F46")
@pytest.mark.parametrize("slow", ["the refund", "the model"])
@pytest.mark.parametrize(("tells", "told"), [(True, [50000]), (False, [])])
def test_paid_customer_is_told_after_the_time_limit(
    scene: Scene,
    load_script: Callable[..., ReplayServer],
    monkeypatch: pytest.MonkeyPatch,
    slow: str,
    tells: bool,
    told: list[int],
) -> None:
    def takes_long(context: DeskCall, **args: Any) -> Any:
        time.sleep(60 if slow == "the refund" else 0)
        return TOOLS_BEFORE["issue_refund"].function(context, **args)

    # No time passes but what the tool and the model's server say that they take.
    slept = list[float]()
    monkeypatch.setattr(journal, "time", SimpleNamespace(monotonic=lambda: sum(slept)))
    monkeypatch.setattr(time, "sleep", slept.append)

    refund = replace(TOOLS["issue_refund"], function=takes_long)
    monkeypatch.setitem(TOOLS, "issue_refund", refund)
    wait = {"delay_s": 60} if slow == "the model" else {}
    load_script(CONTEXT, REFUND, {"text": MAIL, **wait}, REFUND.replace("500", "100"), FINAL)

    run = go(scene.launch_under(replace(STRICT, max_seconds=2, finishes_letters=tells)))

    assert run.stop_reason == "max_seconds"
    assert (payments(run), mails(run)) == ([50000], told)


@pytest.mark.proves("I31", "F37")
def test_a_replay_that_asks_for_something_else_stops_loudly(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_before = PATTERNS["supervisor"]

    def changed(brief: Brief, notes: Notes) -> Flow:
        return (yield from as_before(replace(brief, goal="Another goal"), notes))

    run = go(scene.launch())
    monkeypatch.setitem(PATTERNS, "supervisor", changed)
    scene.decide(run)

    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.FAILED, "diverged")
    assert payments(run) == []
    assert results.result(run)["stop_reason"] == "diverged"


@pytest.mark.proves("F15")
def test_a_bug_of_ours_fails_the_run_once_and_is_shown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(brief: Brief, notes: Notes) -> Flow:
        raise ZeroDivisionError
        yield

    monkeypatch.setitem(PATTERNS, "supervisor", broken)

    run = go(scene.launch())

    assert (run.state, run.stop_reason) == (RunState.FAILED, "internal_error")
    assert run.events.get(kind="run.failed").facts["error"] == "ZeroDivisionError"
    monkeypatch.undo()
    assert results.result(fresh(run))["status"] == "failed"


@pytest.mark.proves("F15")
def test_a_poison_run_is_set_aside(scene: Scene) -> None:
    run = scene.launch()
    Run.objects.filter(pk=run.pk).update(attempts=20)

    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.FAILED, "internal_error")
