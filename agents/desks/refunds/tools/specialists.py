"""Specialists: each answers tickets about one field of the desk, or passes them on."""

from __future__ import annotations

from agents.core.money import format_money
from agents.core.names import plan_in_words
from agents.core.requests import Json
from agents.desks.refunds import support
from agents.desks.refunds.limits import refund_limits
from agents.desks.refunds.ticket_topics import TOPICS, is_about
from agents.tools import Context, Touch, tool

REFUNDABLE = "pro_monthly"
_ANNA, _MAX = 42, 7


def _eligible(seen: Json) -> dict[str, str]:
    found = seen["result"]
    if found["refund_eligible"] is True:
        amount = format_money(found["refund_amount_minor"], found["currency"])
        first = f"A refund of {amount} is possible; this run paid nothing."
    else:
        plan = plan_in_words(found["plan"])
        first = f"No refund is possible{f' on the plan {plan}' if plan else ''}."
    return {"finding": f"{first} {found['reason']}"}


@tool(Touch.READ, timeout=5, may_say=_eligible)
def billing_specialist(context: Context, *, ticket: str) -> Json:
    """Say whether what the customer pays for can be refunded, and how much of it is left."""
    if not _takes(context, "billing", ticket):
        return _reroute_to("billing")
    found = support.paid_plan(
        book_id=context.book_id, customer_number=_customer(context, ticket), at=context.at
    )
    if found is None:
        return {"status": "error", "domain": "billing", "error": "subscription_not_found"}
    days = refund_limits(context.limits).window_days
    may_go_back = found.plan == REFUNDABLE or not found.is_subscription
    eligible = may_go_back and found.age_days <= days and found.refundable_minor > 0
    result = {
        "user_name": found.customer_name,
        "plan": found.plan,
        "currency": found.currency,
        "refund_eligible": eligible,
        "refund_amount_minor": found.refundable_minor if eligible else 0,
        "reason": _reason(found, days),
    }
    return {"status": "done", "domain": "billing", "result": result}


def _reason(found: support.PlanFacts, days: int) -> str:
    if not found.plan:
        return "The customer has paid nothing yet."
    if found.refunded_minor:
        gone = format_money(found.refunded_minor, found.currency)
        return f"{gone} of the last charge was refunded before, or is about to be."
    if found.is_subscription:
        return f"Pro monthly subscriptions are refundable within {days} days."
    return f"A charge can be refunded for {days} days."


def _incident(seen: Json) -> dict[str, str]:
    found = seen["result"]
    return {
        "finding": f"Incident {found['incident_id']} of {found['service']} is {found['state']}; "
        f"the next update comes in {found['next_update_in_minutes']} minutes."
    }


@tool(Touch.READ, timeout=5, may_say=_incident)
def technical_specialist(context: Context, *, ticket: str) -> Json:
    """Say how the incident stands that customers feel."""
    if not _takes(context, "technical", ticket):
        return _reroute_to("technical")
    return {"status": "done", "domain": "technical", "result": support.open_incident()}


def _offer(seen: Json) -> dict[str, str]:
    found = seen["result"]
    price = format_money(found["monthly_price_minor"], found["currency"])
    plan = plan_in_words(found["recommended_plan"]).capitalize()
    return {"finding": f"{plan} costs {price} a month. {found['reason']}"}


@tool(Touch.READ, timeout=5, may_say=_offer)
def sales_specialist(context: Context, *, ticket: str) -> Json:
    """Say which plan to take, and what it costs."""
    if not _takes(context, "sales", ticket):
        return _reroute_to("sales")
    return {"status": "done", "domain": "sales", "result": support.team_offer()}


def _takes(context: Context, domain: str, ticket: str) -> bool:
    if context.limits.reference.loose_topics:
        return any(keyword in ticket.lower() for keyword in TOPICS[domain])
    return is_about(domain, ticket)


def _reroute_to(domain: str) -> Json:
    return {"status": "needs_reroute", "reason": f"ticket_not_{domain}", "domain": domain}


def _customer(context: Context, ticket: str) -> int:
    """Return the case's customer: the run's subject, whatever the ticket says (ROU-Q1).

    Only a replay on an isolated book has no subject; there it is the recorded customer.
    """
    if context.subject_key:
        return int(context.subject_key)
    return _MAX if "user_id=7" in ticket else _ANNA
