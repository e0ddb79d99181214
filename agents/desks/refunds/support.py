"""Read the specialists' data: subscriptions, incidents, the team offer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agents.desks.refunds import billing
from agents.desks.refunds.models import Subscription


@dataclass(frozen=True)
class PlanFacts:
    """A customer's plan and its refundable part. Amounts in minor units."""

    customer_name: str
    plan: str  # "" if nothing was ever paid
    price_minor: int
    currency: str
    age_days: int  # whole days since it was paid
    refunded_minor: int  # of the latest charge, refunded or held
    refundable_minor: int  # of the price, limited by what the latest charge has left
    is_subscription: bool


def paid_plan(*, book_id: int, customer_number: int, at: datetime) -> PlanFacts | None:
    """Return a customer's newest subscription, else their latest charge; None without a customer.

    Any refund on the latest charge counts against the refundable price.
    """
    found = billing.account(book_id=book_id, customer_number=customer_number, at=at)
    if found is None:
        return None
    charge = found.charge
    if charge is None:
        return PlanFacts(found.name, "", 0, "", 0, 0, 0, is_subscription=False)
    plans = Subscription.objects.filter(
        customer__book=book_id, customer__number=customer_number
    ).order_by("-first_paid_at", "-pk")
    newest = plans.first()
    gone = charge.amount_minor - charge.refundable_minor
    plan, price, age = charge.plan, charge.amount_minor, charge.age_days
    if newest:
        paid_days = (at - newest.first_paid_at).days
        plan, price, age = newest.plan, newest.price_minor, max(paid_days, age)
    return PlanFacts(
        customer_name=found.name,
        plan=plan,
        price_minor=price,
        currency=charge.currency,
        age_days=age,
        refunded_minor=gone,
        refundable_minor=max(0, min(price - gone, charge.refundable_minor)),
        is_subscription=newest is not None,
    )


def open_incident() -> dict[str, Any]:
    """Return the incident that now affects customers."""
    return {
        "incident_id": "INC-4021",
        "service": "public-api",
        "state": "mitigated",
        "next_update_in_minutes": 30,
    }


def team_offer() -> dict[str, Any]:
    """Return the plan offered to teams, with its monthly price."""
    return {
        "recommended_plan": "team_plus",
        "currency": "USD",
        "monthly_price_minor": 19_900,
        "reason": "Best fit for teams that need priority support and usage controls.",
    }
