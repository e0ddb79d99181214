"""Read what the desk's specialists know: subscriptions, incidents, the team offer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agents.desk import billing
from agents.desk.models import Subscription


@dataclass(frozen=True)
class SubscriptionFacts:
    """What a customer is subscribed to. The price in minor units a month, age in whole days."""

    customer_name: str
    plan: str
    price_minor: int
    currency: str
    age_days: int


def subscription(*, book_id: int, customer_number: int, at: datetime) -> SubscriptionFacts | None:
    """Return a customer's newest subscription, or None."""
    customer = billing.customer(book_id=book_id, customer_number=customer_number)
    if customer is None:
        return None
    plans = Subscription.objects.filter(customer=customer).order_by("-first_paid_at", "-pk")
    found = plans.first()
    if found is None:
        return None
    return SubscriptionFacts(
        customer_name=customer.name,
        plan=found.plan,
        price_minor=found.price_minor,
        currency=found.currency,
        age_days=(at - found.first_paid_at).days,
    )


def open_incident() -> dict[str, Any]:
    """Return the incident that customers feel now."""
    return {
        "incident_id": "INC-4021",
        "service": "public-api",
        "state": "mitigated",
        "next_update_in_minutes": 30,
    }


def team_offer() -> dict[str, Any]:
    """Return the plan that teams are offered, its price a month."""
    return {
        "recommended_plan": "team_plus",
        "currency": "USD",
        "monthly_price_minor": 19_900,
        "reason": "Best fit for teams that need priority support and usage controls.",
    }
