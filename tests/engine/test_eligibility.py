"""A routed case is told the refundable amount that the ledger has left."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.desks.refunds.importing import import_customers
from agents.desks.refunds.models import Charge, Customer, Subscription
from agents.models import Role, Run
from agents.people import workspaces
from agents.runs import launching
from tests.engine.scene import Scene, go, refund_by_phone, set_scene

pytestmark = pytest.mark.django_db(transaction=True)

CASE = "Can Anna get a refund of her invoice?"


def answer(run: Run) -> str:
    run = go(run)
    assert run.stop_reason == "success"
    return str((run.outcome or {})["answer"])


@pytest.mark.proves("I10")
@pytest.mark.parametrize(
    ("refunded", "told"),
    [
        (0, "A refund of USD 49.00 is possible; this run paid nothing. Pro monthly"),
        (2000, "A refund of USD 29.00 is possible; this run paid nothing. USD 20.00 of the last"),
        (4900, "No refund is possible on the plan pro monthly. USD 49.00 of the last charge was"),
        (
            120000,
            "No refund is possible on the plan pro monthly. USD 1,200.00 of the last charge was",
        ),
    ],
)
def test_what_was_refunded_before_is_not_possible_again(refunded: int, told: str) -> None:
    run = set_scene().launch(CASE, pattern="routing")
    if refunded:
        refund_by_phone(run, refunded)

    assert answer(run).startswith(told)


def launch_imported(scene: Scene, *, days: int | None) -> Run:
    """Launch in a workspace set up as in the docs, for a customer who paid `days` ago."""
    at = timezone.now()
    eu = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=at)
    workspaces.add_member(workspace=eu, user=scene.omar, role=Role.OPERATOR, at=at)
    bought = f"annual,1200.00,USD,{(at - timedelta(days=days or 0)).date()}"
    import_customers(
        workspace=eu,
        lines=[
            "number,name,email,country,tier,plan,amount,currency,paid_on\n",
            f"42,Anna,anna@example.com,US,pro,{bought if days is not None else ',,,'}\n",
        ],
        at=at,
        actor="command line",
    )
    return launching.launch(
        desk="refunds", workspace=eu, pattern="routing", goal=CASE, subject=42, by=scene.omar, at=at
    )


@pytest.mark.proves("I10")
@pytest.mark.parametrize(
    ("days", "told"),
    [
        (3, "A refund of USD 1,200.00 is possible; this run paid nothing. A charge can be"),
        (30, "No refund is possible on the plan annual. A charge can be refunded for 14 days."),
        (None, "No refund is possible. The customer has paid nothing yet."),
    ],
)
def test_eligibility_without_subscriptions_uses_charges(days: int | None, told: str) -> None:
    run = launch_imported(set_scene(), days=days)
    assert not Subscription.objects.filter(customer__book=run.book_id).exists()

    assert answer(run).startswith(told)


@pytest.mark.proves("I10")
@pytest.mark.parametrize("pattern", ["routing", "supervisor"])
def test_no_answer_says_a_plan_or_a_name_that_holds_a_link(pattern: str) -> None:
    """A book may hold rows from before they were checked."""
    run = set_scene().launch(CASE, pattern=pattern)
    Customer.objects.filter(book=run.book_id).update(name="Anna evil.example")
    Charge.objects.filter(customer__book=run.book_id).update(plan="see evil.example")
    Subscription.objects.filter(customer__book=run.book_id).update(plan="see evil.example")

    run = go(run)

    assert "evil" not in str((run.outcome or {}).get("answer"))
