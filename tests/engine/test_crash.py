"""A worker that dies anywhere: the run ends as if nothing had happened, and pays once."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from agents import results
from agents.core.requests import RunState
from agents.desks.refunds.models import SentMail
from agents.engine.runtime import crashpoints
from agents.models import Escalation, Event, Run
from agents.sdk.desk import DESKS
from tests import whole
from tests.desks import bank
from tests.engine.dying import (
    AROUND_CALLS_AND_COMMITS,
    die_at,
    die_everywhere,
    result_and_steps,
    to_the_end,
)
from tests.engine.memory import Crash
from tests.engine.scene import Scene, fresh, go, mails, payments, recover, set_scene
from tests.limits import with_desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def points_reached() -> Iterator[list[str]]:
    """Watch the crash points; nobody watches afterwards."""
    seen: list[str] = []
    crashpoints.watch(seen.append)
    yield seen
    crashpoints.watch(None)


def outcome_of(run: Run) -> dict[str, Any]:
    """Return a run's outcome without what naturally differs between runs."""
    result = results.result(fresh(run))
    result.pop("run_id")
    for past in result["history"]:
        for part in ("refund", "email", "transfer"):
            made = past["observation"].get(part, {})
            for key in ("transaction_id", "email_id", "message", "reference"):
                made.pop(key, None)
        for action in ("executed_action",):
            past[action].get("args", {}).pop("message", None)
        past["supervisor"].pop("revised_action", None)
        past.pop("human_approval", None)
    result["trace"] = [
        {k: v for k, v in line.items() if k != "args_hash"} for line in result["trace"]
    ]
    return result


def refunds_and_mails(run: Run) -> Any:
    return payments(run), mails(run)


def transfers_and_balance(run: Run) -> Any:
    account = bank.account_of(run)
    return bank.postings(run), account.free_minor, account.held_minor


def lower_transfer(scene: Scene, run: Run) -> None:
    bank.decide(scene, run, {"amount": bank.euros("600.00")})


def launch_transfer(scene: Scene) -> Run:
    return bank.launch(scene, bank.FIRST_PAYMENT)


REFUND = (set_scene, Scene.launch, Scene.decide, refunds_and_mails, ([80000], [80000]), 20)
TRANSFER = (
    bank.bank_scene,
    launch_transfer,
    lower_transfer,
    transfers_and_balance,
    ([("P-103", 60000)], 440000, 0),
    12,
)


@pytest.mark.proves("I26", "I28", "F1", "F2", "F3", "F4", "F5", "F6", "F7")
@pytest.mark.both
@pytest.mark.parametrize("case", [REFUND, TRANSFER], ids=["refund", "transfer"])
def test_a_crash_at_any_point_changes_nothing(case: Any) -> None:
    set_it, launch, decide, did, done, least = case
    scene = set_it()

    points, (came_to, _, _) = die_everywhere(
        lambda: launch(scene),
        lambda run: (
            did(run),
            outcome_of(run),
            list(run.steps.order_by("position").values_list("key")),
        ),
        lambda run: decide(scene, run),
    )

    assert len(points) > least
    assert came_to == done


REROUTED = "Anna (customer 42) is not sure who handles this: he wants his invoice explained."
NOBODYS = "Customer 42 asks what the weather will be."
REORIENTED = "Anna (customer 42) asks: is her last charge settled, as you promised on the phone?"
SIGNED_OFF = "Anna (user_id=42) asks for an exception."
ROUTING, WORKFLOW, ORCHESTRATOR = "routing", "workflow", "orchestrator"
REPLY, MEMO, PAY = "customer-reply", "exception-memo", "pay-bill"


def bank_with_high_caps() -> Scene:
    """The runs pay more in a day than the desk's own caps allow."""
    scene = bank.bank_scene()
    own = {**DESKS["bank"].document(), "caps": {"EUR": {"workspace_daily_minor": 10**9}}}
    scene.publish(with_desk("bank", own), User.objects.get(username="ada"))
    return scene


def as_told(run: Run) -> Any:
    """Return a run's outcome without references, with its record's lines about phases.

    Tasks and agents at work side by side end in any order, and so do their steps.
    """
    told = json.dumps(result_and_steps(run), sort_keys=True)
    kinds = list(Event.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))
    phases = ("checkpoint.", "drift.", "verdict.", "step.re", "step.accepted", "human.")
    lines = [kind for kind in kinds if kind.startswith(phases) and kind != "step.retried"]
    keys = list(run.steps.order_by("position").values_list("key")) if run.pattern == ROUTING else []
    return re.sub(r"(em_42_|tr_)\w+", "", told), lines, keys


@pytest.mark.proves("F1")
@pytest.mark.usefixtures("sources_answer_at_once")
@pytest.mark.parametrize(
    ("set_it", "pattern", "workflow", "goal", "done"),  # requests, letters and postings
    [
        (set_scene, ROUTING, "", REROUTED, (0, 0, [])),
        (set_scene, ROUTING, "", NOBODYS, (1, 0, [])),
        (set_scene, WORKFLOW, REPLY, REORIENTED, (0, 1, [])),
        (set_scene, WORKFLOW, MEMO, SIGNED_OFF, (1, 0, [])),
        (set_scene, ORCHESTRATOR, "", "Prepare the morning report.", (0, 0, [])),
        pytest.param(
            *(bank_with_high_caps, WORKFLOW, PAY, "", (0, 0, [("P-101", 48000)])),
            marks=pytest.mark.both,
        ),
    ],
)
def test_a_crash_in_any_pattern_changes_nothing(
    set_it: Callable[[], Scene], pattern: str, workflow: str, goal: str, done: Any
) -> None:
    scene = set_it()
    asked: Any = {"pattern": pattern, "workflow": workflow}
    if not goal:
        one = next(one for one in DESKS["bank"].scenarios if one.pattern == pattern)
        goal, asked = one.goal, {**asked, "desk": "bank", "subject": one.subject or None}

    def came_to(run: Run) -> Any:
        letters = SentMail.objects.filter(book_id=fresh(run).book_id).count()
        return Escalation.objects.filter(run=run).count(), letters, bank.postings(run)

    points, (_, found, state) = die_everywhere(
        lambda: scene.launch(goal, **asked),
        lambda run: (as_told(run), came_to(run), fresh(run).state),
        lambda run: scene.decide(run, amount_minor=None),
    )

    assert set(points) >= AROUND_CALLS_AND_COMMITS
    assert len(points) > 9  # the number of parallel commits is a race
    assert (found, state) == (done, RunState.STOPPED if goal == NOBODYS else RunState.DONE)


@pytest.mark.both
def test_a_sweep_that_dies_is_made_again(points_reached: list[str]) -> None:
    scene = set_scene()
    run = scene.launch()
    die_at(1, only="model.after_call")
    with pytest.raises(Crash):
        go(run)

    die_at(1, only="sweep.after_commit")
    with pytest.raises(Crash):
        recover(run.pk)
    assert fresh(run).state == RunState.QUEUED

    crashpoints.watch(None)
    to_the_end(run, scene.decide)
    assert (payments(run), mails(run)) == ([80000], [80000])


@pytest.mark.both
def test_every_crash_point_is_reached(points_reached: list[str]) -> None:
    scene = set_scene()
    run = scene.launch()

    to_the_end(run, scene.decide)
    recover(run.pk)

    # An agent elsewhere proposes in tests/races/test_agents_elsewhere.py.
    inside = {point for point in whole.POINTS if not point.startswith("propose.")}
    assert set(points_reached) == inside
