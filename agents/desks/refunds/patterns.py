"""What other patterns ask at the refund desk: specialists for tickets, and sources of reports.

A specialist answers tickets about one field of the desk, or passes them on.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from agents.core.money import format_money
from agents.core.names import plan_in_words
from agents.desks.days import declare_sources
from agents.desks.refunds import billing, report
from agents.desks.refunds.declared import desk
from agents.desks.refunds.models import Subscription
from opsconsole.desks import Call, CallRefused, Json

_REFUNDABLE = "pro_monthly"


def _eligible(result: Json) -> dict[str, str]:
    if result["refund_eligible"] is True:
        amount = format_money(result["refund_amount_minor"], result["currency"])
        first = f"A refund of {amount} is possible; this run paid nothing."
    else:
        plan = plan_in_words(result["plan"])
        first = f"No refund is possible{f' on the plan {plan}' if plan else ''}."
    return {"finding": f"{first} {result['reason']}"}


@desk.specialist(title="Billing specialist", may_say=_eligible, timeout=5)
def billing_specialist(call: Call, ticket: str) -> Json:
    """Say whether what the customer pays for can be refunded, and how much of it is left."""
    if not is_about("billing", ticket):
        return None
    paid = _paid_plan(book_id=call.book, customer_number=int(call.subject), at=call.at)
    if paid is None:
        raise CallRefused("subscription_not_found")
    days = int(call.limits.window_days)
    may_go_back = paid.plan == _REFUNDABLE or not paid.is_subscription
    eligible = may_go_back and paid.age_days <= days and paid.refundable_minor > 0
    return {
        "user_name": paid.customer_name,
        "plan": paid.plan,
        "currency": paid.currency,
        "refund_eligible": eligible,
        "refund_amount_minor": paid.refundable_minor if eligible else 0,
        "reason": _reason(paid, days),
    }


def _reason(paid: "PlanFacts", days: int) -> str:
    if not paid.plan:
        return "The customer has paid nothing yet."
    if paid.refunded_minor:
        gone = format_money(paid.refunded_minor, paid.currency)
        return f"{gone} of the last charge was refunded before, or is about to be."
    if paid.is_subscription:
        return f"Pro monthly subscriptions are refundable within {days} days."
    return f"A charge can be refunded for {days} days."


def _incident(row: Json) -> dict[str, str]:
    return {
        "finding": f"Incident {row['incident_id']} of {row['service']} is {row['state']}; "
        f"the next update comes in {row['next_update_in_minutes']} minutes."
    }


@desk.specialist(title="Technical specialist", may_say=_incident, timeout=5)
def technical_specialist(call: Call, ticket: str) -> Json:
    """Say how the incident stands that customers feel."""
    if not is_about("technical", ticket):
        return None
    return {
        "incident_id": "INC-4021",
        "service": "public-api",
        "state": "mitigated",
        "next_update_in_minutes": 30,
    }


def _offer(offer: Json) -> dict[str, str]:
    price = format_money(offer["monthly_price_minor"], offer["currency"])
    plan = plan_in_words(offer["recommended_plan"]).capitalize()
    return {"finding": f"{plan} costs {price} a month. {offer['reason']}"}


@desk.specialist(title="Sales specialist", may_say=_offer, timeout=5)
def sales_specialist(call: Call, ticket: str) -> Json:
    """Say which plan to take, and what it costs."""
    if not is_about("sales", ticket):
        return None
    return {
        "recommended_plan": "team_plus",
        "currency": "USD",
        "monthly_price_minor": 19_900,
        "reason": "Best fit for teams that need priority support and usage controls.",
    }


# What the billing specialist reads: subscriptions and charges.


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


def _paid_plan(*, book_id: int, customer_number: int, at: datetime) -> PlanFacts | None:
    """Return a customer's newest subscription, else their latest charge; None without a customer.

    Any refund on the latest charge counts against the refundable price.
    """
    account = billing.account(book_id=book_id, customer_number=customer_number, at=at)
    if account is None:
        return None
    charge = account.charge
    if charge is None:
        return PlanFacts(account.name, "", 0, "", 0, 0, 0, is_subscription=False)
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
        customer_name=account.name,
        plan=plan,
        price_minor=price,
        currency=charge.currency,
        age_days=age,
        refunded_minor=gone,
        refundable_minor=max(0, min(price - gone, charge.refundable_minor)),
        is_subscription=newest is not None,
    )


# What a ticket is about, by its words.

TOPICS: Mapping[str, tuple[str, ...]] = {
    "billing": ("refund", "charge", "billing", "invoice"),
    "technical": ("error", "bug", "incident", "api", "latency"),
    "sales": ("price", "pricing", "plan", "quote", "discount"),
}
_OF_MONEY = ("refund", "charge", "invoice")

_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("", "s", "d", "ed", "ing", "able")
_NEGATIONS = frozenset({"not", "no", "never", "without", "isn", "don", "doesn", "nothing"})
_REACH = 3  # words that a negation before them denies


def is_about(topic: str, ticket: str) -> bool:
    """Tell whether a ticket is about one topic more than about any other.

    Only whole words count, and not negated ones: an unsure specialist says no, so that another one
    or finally a person looks at it (ROU-Q2). A tie with billing is billing's if a word is of money.
    """
    hits = {name: _hits(keywords, ticket) for name, keywords in TOPICS.items()}
    most = max(hits.values())
    first = [name for name, count in hits.items() if count == most > 0]
    if len(first) > 1 and "billing" in first and _hits(_OF_MONEY, ticket):
        first = ["billing"]
    return first == [topic]


def _hits(keywords: tuple[str, ...], ticket: str) -> int:
    """Return the number of keywords in the ticket that are not negated."""
    words = _WORD.findall(ticket.lower())
    known = {keyword + ending for keyword in keywords for ending in _ENDINGS}
    return sum(
        word in known and not _NEGATIONS & set(words[max(0, place - _REACH) : place])
        for place, word in enumerate(words)
    )


# Sources: each reads one part of a day's numbers, or reports that there are none.

_PARTS = {"sales": report.sales, "payments": report.payments, "inventory": report.inventory}


def _report(source: str, call: Call, day: str, at: str) -> Json:
    # A plain function in its own thread, like most clients of reporting systems: it runs on after
    # its deadline, and its reply comes too late.
    first = call.nth == 1
    time.sleep(report.seconds_of(source, book_id=call.book, first=first))
    facts = _PARTS[source](book_id=call.book, day=day, region=at)
    return facts or {"warning": f"{source}_data_missing"}


declare_sources(desk, "minor", _report)
