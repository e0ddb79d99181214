"""The desk of the recorded cases: its amounts are plain numbers, its rules the reference's.

Two customers who never change: what a case pays back is known from its own run. One file, as it
is read beside a recording.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from agents.core.json_forms import is_text, parse
from agents.core.limits import read_limits
from agents.desks.days import DEMO_SECONDS, declare_sources, figures_of, headline
from agents.sdk.desk_patterns import Report, SourcesFound
from agents.sdk.values import AsNumber
from opsconsole.desks import (
    ANSWER,
    Args,
    Asked,
    Call,
    CallRefused,
    Count,
    Desk,
    Json,
    Lower,
    Money,
    Ruling,
    Subject,
    Touch,
    approve,
    block,
    escalate,
    limit,
    revise,
)

CURRENCY = "USD"
DAY = ("2026-02-26", "US")
FOUND: Mapping[str, Json] = {
    "sales": {"gross_sales_usd": 182450.0, "orders": 4820, "aov_usd": 37.85},
    "payments": {"failed_payment_rate": 0.023, "chargeback_alerts": 3, "gateway_incident": "none"},
    "inventory": {
        "low_stock_skus": ["SKU-4411", "SKU-8820"],
        "out_of_stock_skus": ["SKU-9033"],
        "restock_eta_days": 2,
    },
}
REASON = "Customer requested refund within policy review"
LATEST = {  # customer: name, tier, plan, minor units, days since it was paid
    42: ("Anna", "enterprise", "annual_enterprise", 120_000, 10),
    7: ("Max", "pro", "pro_monthly", 4900, 35),
}


def _customer(key: str) -> Mapping[str, Json] | None:
    return {"name": LATEST[int(key)][0]} if key.isdigit() and int(key) in LATEST else None


Usd = Annotated[Money, AsNumber(CURRENCY)]
NOTHING = Money(0, CURRENCY)


def usd(minor: int) -> Money:
    return Money(minor, CURRENCY)


def as_recorded(given: Mapping[str, Json]) -> dict[str, Json]:
    """Return a call's arguments as the reference reads them: trimmed, and amounts with a point."""
    return {name: _as_recorded(name, value) for name, value in given.items()}


def _as_recorded(name: str, value: Json) -> Json:
    if isinstance(value, str) and is_text(value):
        return value.strip()
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53
    return float(value) if name.endswith("_usd") and is_whole else value


class RecordedCents(Count):
    unit = CURRENCY


@dataclass(frozen=True)
class CaseLimits:
    """What the config of a case may set."""

    auto_limit_minor: RecordedCents = limit(RecordedCents(100_000), "Automatic approval limit")
    run_limit_minor: RecordedCents = limit(RecordedCents(200_000), "Most refunded in one run")


@dataclass(frozen=True)
class CaseFacts:
    """What a case has read and paid."""

    has_context: bool = False
    has_refund: bool = False
    refunded: Usd = NOTHING


TOPICS = {
    "billing": ("refund", "charge", "billing", "invoice"),
    "technical": ("error", "bug", "incident", "api", "latency"),
    "sales": ("price", "pricing", "plan", "quote", "discount"),
}


def scope(book: int) -> dict[str, str] | None:
    """Return the day and region of every recorded report."""
    return {"report_date": DAY[0], "region": DAY[1]}


def figures(found: SourcesFound) -> dict[str, Json]:
    """Return the facts of the day; a field that a source leaves empty is good news."""
    return figures_of(found, "usd", _has)


def _has(part: Mapping[str, Json], name: str) -> bool:
    """Tell whether a field is there; NaN is no number."""
    return name in part and not (isinstance(part[name], float) and math.isnan(part[name]))


# No rule of the recorded cases asks for more than the headline.
REPORT = Report(scope, figures, headline, headline, about="day or region", in_any_case=("region",))
_POLICY = Path(__file__).parent / "policy.json"  # as cases have it; their configs change it
desk = Desk(
    name="reference",
    title="Recorded cases",
    subject=Subject("customer", _customer, label="{name}"),
    limits=CaseLimits,
    answers="record",
    is_replayed=True,
    report=REPORT,
    workflows=Path(__file__).parent / "workflows",
)
desk.policy = REFERENCE = read_limits(parse(_POLICY.read_text(encoding="utf-8")))


@desk.facts
def gather(subject: str, asked: Asked) -> CaseFacts:
    read = (reply.get("user") for reply in asked.read("get_refund_context"))
    made = asked.made("issue_refund")
    return CaseFacts(
        has_context=any(isinstance(user, dict) and "id" in user for user in read)
        or any(map(asked.read, desk.specialists)),
        has_refund=any(call.is_settled for call in made),
        refunded=usd(sum(call.amount.minor for call in made if call.amount)),
    )


@desk.tool(Touch.READ, title="Look up customer", subject="user_id", timeout=5, clean=as_recorded)
def get_refund_context(call: Call, *, user_id: int) -> Json:
    """Return a customer, their latest charge and the policy's hint."""
    if user_id not in LATEST:
        return {"error": f"context_not_found_for_user:{user_id}"}
    name, tier, plan, charged, days = LATEST[user_id]
    return {
        "user": {"id": user_id, "name": name, "country": "US", "tier": tier},
        "billing": {
            "plan": plan,
            "currency": CURRENCY,
            "last_charge_usd": charged / 100,
            "days_since_payment": days,
        },
        # The hint does not follow the limit (sup-030).
        "policy_hint": {"auto_refund_limit_usd": 1000.0, "refund_window_days": 14},
    }


def _find_nothing(key: str) -> Json:
    """Return that nothing was done under a key: a call that failed paid nothing."""
    return None


def _is_valid(result: Json, args: Json) -> bool:
    """Tell whether an "ok" names the requested amount; any other result paid nothing (SUP-Q30)."""
    paid = result.get("refund")
    is_asked = isinstance(paid, dict) and paid.get("amount_usd") == args["amount_usd"]
    return is_asked or result.get("status") != "ok"


@desk.tool(
    Touch.SAFE,
    title="Issue refund",
    before="Pay customer {user_id} {amount_usd}.",
    after="{amount_usd} was refunded to customer {user_id}.",
    subject="user_id",
    amount="amount_usd",
    may_change={"amount_usd": Lower()},
    find=_find_nothing,
    valid=_is_valid,
    clean=as_recorded,
)
def issue_refund(call: Call, *, user_id: int, amount_usd: Usd, reason: str = "") -> Json:
    """Pay part of the latest charge back."""
    if user_id not in LATEST:
        raise CallRefused(f"refund_user_not_found:{user_id}")
    most = LATEST[user_id][3]
    if amount_usd.minor > most:
        told = {"error": "refund_exceeds_last_charge", "max_refund_usd": most / 100}
        return {"status": "error", **told}
    return {
        "status": "ok",
        "refund": {
            "user_id": user_id,
            "currency": CURRENCY,
            "amount_usd": amount_usd.minor / 100,
            "reason": reason.strip(),
            "transaction_id": f"rf_{user_id}_{_digest(call)}",
        },
    }


@desk.tool(
    Touch.SAFE,
    title="Send refund email",
    before="Email customer {user_id} about {amount_usd}.",
    after="The customer was told by email.",
    subject="user_id",
    amount="amount_usd",
    letter="message",
    tells=issue_refund,
    gauge="refunds_untold",
    find=_find_nothing,
    clean=as_recorded,
)
def send_refund_email(call: Call, *, user_id: int, amount_usd: Usd, message: str) -> Json:
    """Write to a customer about a refund."""
    if user_id not in LATEST:
        raise CallRefused(f"email_user_not_found:{user_id}")
    email = {
        "to": f"{LATEST[user_id][0].lower()}@example.com",
        "template": "refund_confirmation_v2",
        "amount_usd": amount_usd.minor / 100,
        "message": message,
        "email_id": f"em_{user_id}_{_digest(call)}",
    }
    return {"status": "ok", "email": email}


def _digest(call: Call) -> str:
    return sha256(call.key.encode()).hexdigest()[:12]


@desk.rule(get_refund_context)
def context() -> Ruling:
    """Looking up a customer's record changes nothing."""
    return approve("read_only_context", "Reading the customer's record changes nothing.", risk=5)


@desk.rule(ANSWER)
def after_context(facts: CaseFacts) -> Ruling:
    """An answer is blocked if no customer's record was read."""
    if facts.has_context:
        return approve("final_with_context", "The customer's record was read.", risk=5)
    return block("final_requires_context", "The customer's record was not read.", risk=40)


@desk.rule(ANSWER)
def output() -> Ruling:
    """The result of a step changes nothing by itself."""
    return approve("output_changes_nothing", "The result of a step changes nothing.", risk=5)


@desk.rule(issue_refund)
def positive(args: Args) -> Ruling | None:
    """A refund of nothing, or of less, is blocked."""
    if isinstance(args.amount_usd, Money):
        return None
    return block("invalid_refund_amount", "The amount is not above zero.", risk=60)


@desk.rule(issue_refund)
def run_limit(args: Args, facts: CaseFacts, limits: CaseLimits) -> Ruling | None:
    """A refund is lowered to what the run may still pay. With nothing left it is blocked."""
    left = usd(limits.run_limit_minor) - facts.refunded
    if not isinstance(args.amount_usd, Money) or args.amount_usd <= left:
        return None
    if left <= NOTHING:
        return block("refund_budget_exhausted", "The run has refunded all that it may.", risk=70)
    told = f"{{amount_usd}} is more than the {left} this run may still refund."
    return revise("cap_to_remaining_run_budget", told, to={"amount_usd": left}, risk=60)


@desk.rule(issue_refund)
def reason_given(args: Args) -> Ruling | None:
    """A refund without a reason gets the standard reason."""
    if args.reason.strip() or not isinstance(args.amount_usd, Money):
        return None
    told = "The refund has no reason, so the standard one was filled in."
    return revise("refund_reason_required", told, to={"reason": REASON}, risk=20)


@desk.rule(issue_refund)
def auto_limit(args: Args, limits: CaseLimits) -> Ruling | None:
    """A refund up to the limit is allowed. A larger one waits for a person."""
    most = usd(limits.auto_limit_minor)
    if not isinstance(args.amount_usd, Money):
        return None
    if args.amount_usd <= most:
        told = f"{{amount_usd}} is within the automatic limit of {most}."
        return approve("refund_within_auto_limit", told, risk=15)
    told = f"{{amount_usd}} is over the automatic limit of {most}."
    return escalate("high_refund_requires_human", told, risk=70)


@desk.rule(send_refund_email)
def after_refund(facts: CaseFacts) -> Ruling:
    """An email about a refund that was not paid is blocked."""
    if facts.has_refund:
        return approve("email_after_refund", "A refund was made in this run.", risk=10)
    return block("email_before_refund", "No refund was made in this run.", risk=50)


@desk.specialist(title="Billing specialist", timeout=5)
def billing_specialist(call: Call, ticket: str) -> Json:
    """Say whether what the customer pays for can be refunded."""
    if not _is_about("billing", ticket):
        return None
    is_max = "user_id=7" in ticket
    return {
        "user_name": "Max" if is_max else "Anna",
        "plan": "free" if is_max else "pro_monthly",
        "currency": CURRENCY,
        "refund_eligible": not is_max,
        "refund_amount_usd": 0.0 if is_max else 49.0,
        "reason": "Pro monthly subscriptions are refundable within 14 days.",
    }


@desk.specialist(title="Technical specialist", timeout=5)
def technical_specialist(call: Call, ticket: str) -> Json:
    """Say how the incident stands that customers feel."""
    if not _is_about("technical", ticket):
        return None
    return {
        "incident_id": "INC-4021",
        "service": "public-api",
        "state": "mitigated",
        "next_update_in_minutes": 30,
    }


@desk.specialist(title="Sales specialist", timeout=5)
def sales_specialist(call: Call, ticket: str) -> Json:
    """Say which plan to take, and what it costs."""
    if not _is_about("sales", ticket):
        return None
    return {
        "recommended_plan": "team_plus",
        "currency": CURRENCY,
        "monthly_price_usd": 199.0,
        "reason": "Best fit for teams that need priority support and usage controls.",
    }


def _is_about(topic: str, ticket: str) -> bool:
    return any(word in ticket.lower() for word in TOPICS[topic])


def _report(source: str, call: Call, day: str, region: str) -> Json:
    time.sleep(DEMO_SECONDS[source][0 if call.nth == 1 else 1])
    is_known = (day, region.upper()) == DAY
    return FOUND[source] if is_known else {"warning": f"{source}_data_missing"}


declare_sources(desk, "usd", _report)
