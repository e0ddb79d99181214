"""The facts of a review: from the ledger, the run, and the charge that an action is about."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from agents.db.driver import fetch_now
from agents.desks.refunds.facts import RefundFacts
from agents.desks.refunds.models import Charge, Customer
from agents.engine.desk.facts import fetch_facts
from agents.models import Effect, Escalation, Run, Step
from tests.engine.scene import REFUND_500, Scene, fresh, go

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

REFUND = {
    "kind": "tool",
    "name": "issue_refund",
    "args": {"user_id": 42, "amount_minor": 50000, "reason": "partly used"},
}


def facts_of(run: Run, *steps: Step, at: datetime | None = None) -> RefundFacts:
    """Return the facts for a refund in `run`, which has only these steps."""
    run = fresh(run)
    limits = run.policy.limits().of(run.pattern, "refunds")
    facts, _ = fetch_now(
        fetch_facts, run, REFUND, limits, steps, at=at or timezone.now(), lock=False
    )
    assert facts.desk
    own: RefundFacts = facts.desk.own
    return own


def beside(scene: Scene, run: Run) -> Run:
    """Return another run about the same charges."""
    other = scene.launch(REFUND_500)
    Run.objects.filter(pk=other.pk).update(book_id=run.book_id)
    return other


def test_what_another_run_refunded_counts_on_its_charge_only(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))
    other = beside(scene, run)

    assert facts_of(other).unattended_minor == 50000

    addon = Charge.objects.create(
        customer=Customer.objects.get(book=run.book_id, number=42),
        plan="addon",
        amount_minor=9900,
        currency="USD",
        paid_at=timezone.now(),
    )
    assert facts_of(other).unattended_minor == 50000  # the one that alone has so much left
    Run.objects.filter(pk=other.pk).update(goal=f"Refund CH-{addon.pk}.")
    assert facts_of(other).unattended_minor == 0


def test_what_another_run_refunded_counts_for_so_many_days(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))
    other = beside(scene, run)
    [effect] = Effect.objects.filter(run=run, tool="issue_refund")
    days = fresh(other).policy.limits().of(other.pattern, "refunds").rolling_days
    last = effect.intended_at + timedelta(days=days)

    counted = [
        facts_of(other, at=at).unattended_minor for at in (last, last + timedelta(seconds=1))
    ]

    assert counted == [50000, 0]


def test_what_a_person_allowed_is_told_as_theirs(scene: Scene) -> None:
    run = scene.decided_refund()

    effect = Effect.objects.get(run=run, tool="issue_refund")
    assert effect.escalation == Escalation.objects.get(run=run)
    assert [refund.by_person for refund in facts_of(run, effect.step).refunds] == [True]
    assert facts_of(beside(scene, run)).unattended_minor == 0


def test_a_run_that_has_only_written_is_told_what(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))
    wrote = Effect.objects.get(run=run, tool="issue_refund").step

    [refund] = facts_of(run, wrote).refunds

    assert (refund.customer, refund.amount_minor, refund.settled) == (42, 50000, True)
