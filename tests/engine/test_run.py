"""One supervised refund on the real engine, from the goal to the money."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.utils import timezone

from agents import llm
from agents.core.decisions import Decision
from agents.core.requests import Ask, Escalate, EscalationState, Flow, RunState, Together
from agents.engine import journal
from agents.engine.lease import claim
from agents.engine.runtime.database import in_database
from agents.engine.upkeep.sweep import sweep
from agents.models import Effect, Escalation, Event, LostRun, Role, Run, Step, Workspace
from agents.patterns import PATTERNS, Brief, Notes
from agents.people import workspaces
from agents.requests import deciding
from agents.runs import launching
from agents.shell import refusal
from tests.engine.scene import REFUND_500, Scene, decide_request, fresh, go, payments, set_scene

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_that_waits_holds_no_lease(scene: Scene) -> None:
    run = go(scene.launch())

    assert (run.state, run.lease_owner, run.lease_ends_at) == (RunState.WAITING, "", None)


@pytest.mark.proves("I16")
def test_a_person_may_not_raise_the_amount(scene: Scene) -> None:
    workspaces.add_member(
        workspace=scene.workspace,
        user=scene.rita,
        role="reviewer",
        desk_limits={},
        at=timezone.now(),
    )
    run = go(scene.launch("Refund 1100 USD to user_id=42."))

    with pytest.raises(refusal.Refused, match=r"to USD 1,100\.00"):
        scene.decide(run, amount_minor=110001)


@pytest.mark.both
@pytest.mark.proves("I17", "I35")
def test_the_second_decision_is_told_who_was_first(scene: Scene) -> None:
    run = go(scene.launch())
    escalation = Escalation.objects.get(run=run)
    scene.decide(run)

    with pytest.raises(deciding.AlreadyDecided) as late:
        decide_request(escalation, scene.rita, approve=False, comment="late")

    assert late.value.escalation.decided_by == scene.rita
    assert late.value.escalation.granted_minor == 80000
    refused = run.events.get(kind="decision.refused")
    assert (refused.actor, refused.facts["escalation"]) == ("rita", escalation.pk)


@pytest.mark.proves("I19", "W28")
@pytest.mark.parametrize("anew", [False, True], ids=["it", "the run it repeats"])
def test_who_launched_a_run_may_not_decide_about_it(scene: Scene, anew: bool) -> None:
    run = go(scene.launch())
    if anew:
        scene.decide(run, approve=False)
        ada = scene.add("ada", Role.ADMIN)
        run = go(launching.launch_again(run_id=go(run).pk, by=ada, at=timezone.now()))
    workspaces.add_member(
        workspace=scene.workspace, user=scene.omar, role="admin", at=timezone.now()
    )
    escalation = Escalation.objects.get(run=run)

    with pytest.raises(refusal.Refused, match="You launched this run"):
        decide_request(escalation, scene.omar)


def test_eve_may_neither_launch_nor_decide_nor_cancel(scene: Scene) -> None:
    run = go(scene.launch())
    escalation = Escalation.objects.get(run=run)
    at = timezone.now()

    with pytest.raises(refusal.Refused, match="needs the role"):
        scene.launch("g", by=scene.eve)
    with pytest.raises(refusal.Refused, match="needs the role"):
        deciding.decide(
            escalation_id=escalation.pk, by=scene.eve, at=at, wanted=Decision(approve=True)
        )
    with pytest.raises(refusal.Refused, match="needs the role"):
        launching.cancel(run_id=run.pk, by=scene.eve, reason="", at=at)


def refused_to_rita(scene: Scene, run: Run) -> bool:
    with pytest.raises(refusal.Refused, match="is not a member"):
        scene.decide(run)
    return Escalation.objects.get(run=run).state == EscalationState.OPEN


@pytest.mark.both
def test_who_decides_in_another_workspace_may_not_decide_here(scene: Scene) -> None:
    run = go(scene.launch())
    elsewhere = Workspace.objects.create(
        slug="other", name="Other", book=scene.workspace.book, created_at=timezone.now()
    )

    scene.rita.memberships.update(workspace=elsewhere)

    assert refused_to_rita(scene, run)


def test_who_was_disabled_may_not_decide(scene: Scene) -> None:
    run = go(scene.launch())

    User.objects.filter(pk=scene.rita.pk).update(is_active=False)

    assert refused_to_rita(scene, run)


def test_a_decision_about_nothing_says_so_and_leaves_nothing(scene: Scene) -> None:
    before = Event.objects.count()

    with pytest.raises(Escalation.DoesNotExist):
        deciding.decide(
            escalation_id=1, by=scene.rita, at=timezone.now(), wanted=Decision(approve=True)
        )

    assert Event.objects.count() == before
    assert go(scene.launch(REFUND_500)).state == RunState.DONE


@pytest.mark.both
@pytest.mark.proves("I29")
def test_an_escalation_that_expires_is_a_no(scene: Scene) -> None:
    run = go(scene.launch())
    Escalation.objects.filter(run=run).update(expires_at=timezone.now() - timedelta(seconds=1))

    sweep()
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "escalation_expired")
    assert payments(run) == []


@pytest.mark.both
@pytest.mark.proves("I17")
def test_a_decision_that_comes_after_the_expiry_changes_nothing(scene: Scene) -> None:
    run = go(scene.launch())
    Escalation.objects.filter(run=run).update(expires_at=timezone.now() - timedelta(seconds=1))

    with pytest.raises(deciding.AlreadyDecided):
        scene.decide(run)

    run = go(run)
    assert run.stop_reason == "escalation_expired"
    assert payments(run) == []


def test_cancelled_run_pays_nothing_and_closes_its_request(scene: Scene) -> None:
    run = go(scene.launch())

    launching.cancel(run_id=run.pk, by=scene.omar, reason="mistake", at=timezone.now())

    run = fresh(run)
    assert (run.state, run.stop_reason) == (RunState.STOPPED, "cancelled")
    assert Escalation.objects.get(run=run).state == EscalationState.CANCELLED
    with pytest.raises(refusal.Refused):
        launching.cancel(run_id=run.pk, by=scene.omar, reason="", at=timezone.now())


@pytest.mark.both
@pytest.mark.proves("W15")
def test_a_double_submit_makes_one_run(scene: Scene) -> None:
    first = scene.launch(token="form-1")
    second = scene.launch(token="form-1")

    assert first == second
    assert Run.objects.count() == 1


@pytest.mark.both
@pytest.mark.proves("F12")
def test_only_one_worker_gets_a_run(scene: Scene) -> None:
    run = scene.launch()
    lease = timedelta(seconds=15)
    at = timezone.now()

    assert claim(run.pk, owner="a", lease=lease, at=at)
    assert claim(run.pk, owner="b", lease=lease, at=at) is None


@pytest.mark.both
@pytest.mark.proves("I25")
def test_a_worker_that_lost_its_lease_writes_nothing(scene: Scene) -> None:
    run = scene.launch()
    late = claim(run.pk, owner="a", lease=timedelta(seconds=-1), at=timezone.now())
    assert late is not None

    sweep()
    assert claim(run.pk, owner="b", lease=timedelta(seconds=15), at=timezone.now())

    with pytest.raises(LostRun):
        late.assert_lease()


@pytest.mark.both
@pytest.mark.proves("I4")
def test_two_runs_cannot_share_what_is_refunded_without_a_person(scene: Scene) -> None:
    """Refunds of one charge add up over runs; both runs share a book here."""
    first = go(scene.launch("Refund 600 USD to user_id=42."))
    second = scene.launch("Refund 500 USD to user_id=42.")
    Run.objects.filter(pk=second.pk).update(book_id=first.book_id)

    second = go(second)

    assert payments(first) == [60000]
    assert second.state == RunState.WAITING
    review = Escalation.objects.get(run=second).review
    assert review["deciding"]["reason"] == "refunds_add_up"


@pytest.mark.proves("I11")
def test_every_write_was_allowed_with_these_very_arguments(scene: Scene) -> None:
    run = scene.decided_refund()

    refund = Effect.objects.get(run=run, tool="issue_refund")
    allowed = refund.review.reply or {}
    assert (allowed["allows"], allowed["action"]["args"]) == (True, refund.args)
    assert refund.escalation is not None
    assert refund.escalation.granted_minor == refund.amount_minor == 80000


@pytest.mark.both
def test_an_answer_given_while_a_sibling_runs_is_not_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One strand waits for a person, the other for a model; the person is quicker."""

    def asks_person() -> Flow:
        review = {"escalating": [], "rulings": [], "deciding": {"reason": "r", "sentence": "s"}}
        return (yield Escalate("person", "question", {"kind": "question"}, review))

    def asks_model() -> Flow:
        return (yield Ask("model", "writer", {"goal": "g", "history": []}, as_json=False))

    def both(brief: Brief, notes: Notes) -> Flow:
        ended = yield Together("both", {"person": asks_person(), "model": asks_model()})
        return {"answer": ended["person"].value["decision"]}

    ask = llm.ask

    async def answered_meanwhile(*args: Any, **named: Any) -> llm.ModelAnswer:
        for _ in range(3000):
            if await in_database(Escalation.objects.filter(run=run).exists):
                break
            await asyncio.sleep(0.01)
        await in_database(scene.decide, run)
        return await ask(*args, **named)

    monkeypatch.setitem(PATTERNS, "supervisor", both)
    monkeypatch.setattr(llm, "ask", answered_meanwhile)
    run = scene.launch()
    run = go(run)

    assert run.state == RunState.QUEUED
    assert go(run).outcome == {"answer": "approved", "came_of": "answered"}


@pytest.mark.both
def test_run_is_driven_after_a_failed_read_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    read, tries = journal.STEPS, list[object]()

    class LockedOnce:
        @staticmethod
        def all(**given: object) -> list[Step]:
            tries.append(given)
            if len(tries) == 1:
                raise OperationalError("database is locked")
            return read.all(**given)

    monkeypatch.setattr(journal, "STEPS", LockedOnce)

    assert go(set_scene().launch(REFUND_500)).stop_reason == "success"
