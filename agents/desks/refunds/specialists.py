"""Specialists: each answers tickets about one field of the desk, or passes them on."""

from __future__ import annotations

from agents.core.money import format_money
from agents.core.names import plan_in_words
from agents.desks.refunds import support
from agents.desks.refunds.declared import desk
from agents.desks.refunds.ticket_topics import TOPICS, is_about
from opsconsole.desks import Call, CallRefused, Json

REFUNDABLE = "pro_monthly"
_ANNA, _MAX = 42, 7


def _eligible(found: Json) -> dict[str, str]:
    if found["refund_eligible"] is True:
        amount = format_money(found["refund_amount_minor"], found["currency"])
        first = f"A refund of {amount} is possible; this run paid nothing."
    else:
        plan = plan_in_words(found["plan"])
        first = f"No refund is possible{f' on the plan {plan}' if plan else ''}."
    return {"finding": f"{first} {found['reason']}"}


@desk.specialist(title="Billing specialist", may_say=_eligible, timeout=5)
def billing_specialist(call: Call, ticket: str) -> Json:
    """Say whether what the customer pays for can be refunded, and how much of it is left."""
    if not _takes(call, "billing", ticket):
        return None
    found = support.paid_plan(
        book_id=call.book, customer_number=_customer(call, ticket), at=call.at
    )
    if found is None:
        raise CallRefused("subscription_not_found")
    days = int(call.limits.window_days)
    may_go_back = found.plan == REFUNDABLE or not found.is_subscription
    eligible = may_go_back and found.age_days <= days and found.refundable_minor > 0
    return {
        "user_name": found.customer_name,
        "plan": found.plan,
        "currency": found.currency,
        "refund_eligible": eligible,
        "refund_amount_minor": found.refundable_minor if eligible else 0,
        "reason": _reason(found, days),
    }


def _reason(found: support.PlanFacts, days: int) -> str:
    if not found.plan:
        return "The customer has paid nothing yet."
    if found.refunded_minor:
        gone = format_money(found.refunded_minor, found.currency)
        return f"{gone} of the last charge was refunded before, or is about to be."
    if found.is_subscription:
        return f"Pro monthly subscriptions are refundable within {days} days."
    return f"A charge can be refunded for {days} days."


def _incident(found: Json) -> dict[str, str]:
    return {
        "finding": f"Incident {found['incident_id']} of {found['service']} is {found['state']}; "
        f"the next update comes in {found['next_update_in_minutes']} minutes."
    }


@desk.specialist(title="Technical specialist", may_say=_incident, timeout=5)
def technical_specialist(call: Call, ticket: str) -> Json:
    """Say how the incident stands that customers feel."""
    if not _takes(call, "technical", ticket):
        return None
    return support.open_incident()


def _offer(found: Json) -> dict[str, str]:
    price = format_money(found["monthly_price_minor"], found["currency"])
    plan = plan_in_words(found["recommended_plan"]).capitalize()
    return {"finding": f"{plan} costs {price} a month. {found['reason']}"}


@desk.specialist(title="Sales specialist", may_say=_offer, timeout=5)
def sales_specialist(call: Call, ticket: str) -> Json:
    """Say which plan to take, and what it costs."""
    if not _takes(call, "sales", ticket):
        return None
    return support.team_offer()


def _takes(call: Call, domain: str, ticket: str) -> bool:
    if call.limits.loose_topics:
        return any(keyword in ticket.lower() for keyword in TOPICS[domain])
    return is_about(domain, ticket)


def _customer(call: Call, ticket: str) -> int:
    """Return the case's customer: the run's subject, whatever the ticket says (ROU-Q1).

    Only a replay on an isolated book has no subject; there it is the recorded customer.
    """
    if call.subject:
        return int(call.subject)
    return _MAX if "user_id=7" in ticket else _ANNA
