"""What may be paid back, and who must agree. One file: its rules are read side by side."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.former import CURRENCY
from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.requests import Json
from agents.core.rulings import Ruling, RulingKind
from agents.desks.refunds.known import RefundFacts
from agents.desks.refunds.limits import refund_limits
from agents.policies import rule

DEFAULT_REASON = "Customer requested refund within policy review"


def _amount(action: Action) -> int | None:
    """Return the minor units a refund asks for; None for other actions and for non-amounts."""
    if action.get("name") != "issue_refund":
        return None
    amount = (action.get("args") or {}).get("amount_minor")
    return amount if isinstance(amount, int) and amount > 0 else None


def _with(action: Action, **changed: Json) -> Action:
    return {**action, "args": {**action["args"], **changed}}


@rule
def positive(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """A refund pays at least one cent."""
    if action.get("name") != "issue_refund" or _amount(action) is not None:
        return None
    return Ruling(
        RulingKind.BLOCK,
        "invalid_refund_amount",
        "The amount is not above nought, so there is nothing to refund.",
        risk=60,
        observed=(action.get("args") or {}).get("amount_usd"),
        limit=1,
        unit=CURRENCY,
        flip=f"The least that can be refunded is {format_money(1)}.",
    )


@rule
def run_limit(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """One run never refunds more than its cap: the rest is cut off, then reviewed again."""
    amount = _amount(action)
    most = refund_limits(limits).run_limit_minor
    left = most - facts.refunded_minor
    if amount is None or amount <= left:
        return None
    judged: Json = {"observed": amount, "limit": max(left, 0), "unit": CURRENCY}
    if left <= 0:
        sentence = f"This run has refunded all of its {format_money(most)}."
        return Ruling(RulingKind.BLOCK, "refund_budget_exhausted", sentence, 70, **judged)
    return Ruling(
        RulingKind.REVISE,
        "cap_to_remaining_run_budget",
        f"{format_money(amount)} is more than the {format_money(left)} this run may still refund.",
        risk=60,
        flip=f"{format_money(left)} or less would not have been cut.",
        action=_with(action, amount_minor=left),
        **judged,
    )


@rule
def reason_given(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """A refund carries a reason; a missing one is filled in, then reviewed again."""
    if _amount(action) is None or str(action["args"].get("reason") or "").strip():
        return None
    return Ruling(
        RulingKind.REVISE,
        "refund_reason_required",
        "The refund has no reason, so the standard one was filled in.",
        risk=20,
        flip="With a reason the refund would not have been changed.",
        action=_with(action, reason=DEFAULT_REASON),
    )


@rule
def auto_limit(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Refund automatically up to the limit; above it ask for approval."""
    amount, limit = _amount(action), refund_limits(limits).auto_limit_minor
    if amount is None:
        return None
    if amount <= limit:
        sentence = f"{format_money(amount)} is within the automatic limit of {format_money(limit)}."
        return Ruling(
            RulingKind.APPROVE,
            "refund_within_auto_limit",
            sentence,
            15,
            observed=amount,
            limit=limit,
            unit=CURRENCY,
        )
    return Ruling(
        RulingKind.ESCALATE,
        "high_refund_requires_human",
        f"{format_money(amount - limit)} over the automatic limit of {format_money(limit)}.",
        risk=min(90, 40 + 30 * (amount - limit) // max(limit, 1)),
        observed=amount,
        limit=limit,
        unit=CURRENCY,
        flip=f"{format_money(limit)} or less would have been approved automatically.",
    )


@rule
def charge_left(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Never more than what is left of the charge, whatever was refunded by whom (SUP-Q7)."""
    amount = _amount(action)
    if amount is None:
        return None
    if facts.charge is None or facts.charge.currency != CURRENCY:
        sentence = f"The customer has no charge in {CURRENCY} that could be refunded."
        return Ruling(
            RulingKind.BLOCK, "no_charge_to_refund", sentence, 80, observed=amount, limit=0
        )
    left = facts.charge.refundable_minor
    if amount <= left:
        return None
    judged: Json = {"observed": amount, "limit": max(left, 0), "unit": CURRENCY}
    if left <= 0:
        sentence = "The charge has been refunded in full."
        return Ruling(RulingKind.BLOCK, "charge_fully_refunded", sentence, 80, **judged)
    return Ruling(
        RulingKind.REVISE,
        "cap_to_refundable",
        f"{format_money(amount)} is more than the {format_money(left)} that is left of the charge.",
        risk=60,
        flip=f"{format_money(left)} or less would not have been cut.",
        action=_with(action, amount_minor=left),
        **judged,
    )


@rule
def window(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """A charge is refunded only within the refund window (SUP-Q12)."""
    if _amount(action) is None or facts.charge is None:
        return None
    age, days = facts.charge.age_days, refund_limits(limits).window_days
    if age <= days:
        return None
    return Ruling(
        RulingKind.BLOCK,
        "outside_refund_window",
        f"The charge was paid {age} days ago; refunds are possible for {days} days.",
        risk=70,
        observed=age,
        limit=days,
        unit="days",
        flip=f"A charge paid at most {days} days ago could have been refunded.",
    )


@rule
def unattended_total(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Refunds that no person saw add up, over all runs of the rolling window (SUP-Q7)."""
    amount, limit = _amount(action), refund_limits(limits).auto_limit_minor
    if amount is None or facts.unattended_minor == 0:
        return None
    total = facts.unattended_minor + amount
    if total <= limit:
        return None
    left = max(limit - facts.unattended_minor, 0)
    return Ruling(
        RulingKind.ESCALATE,
        "refunds_add_up",
        f"With {format_money(facts.unattended_minor)} refunded on this charge without a person in "
        f"{limits.rolling_days} days, {format_money(amount)} more makes {format_money(total)}.",
        risk=75,
        observed=total,
        limit=limit,
        unit=CURRENCY,
        flip=f"{format_money(left)} or less would not have needed a person." if left else "",
    )


@rule
def unattended_today(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """What goes out without a person has a cap a day: of one launcher, and of the workspace."""
    amount = _amount(action)
    if amount is None:
        return None
    by_launcher = ("launched by the same person", facts.unattended_by_launcher_minor)
    in_all = ("in this workspace", facts.unattended_today_minor)
    caps = ((*by_launcher, limits.launcher_daily_minor), (*in_all, limits.workspace_daily_minor))
    over = [
        (cap - before, whose, before, cap)
        for whose, before, cap in caps
        if cap is not None and before + amount > cap
    ]
    if not over:
        return None
    left, whose, before, cap = min(over)
    return Ruling(
        RulingKind.ESCALATE,
        "unattended_cap_of_the_day",
        f"{format_money(before)} went out today without approval, {whose}; "
        f"with {format_money(amount)} more it is above {format_money(cap)}.",
        risk=80,
        observed=before + amount,
        limit=cap,
        unit=CURRENCY,
        flip=f"{format_money(left)} or less would not have needed a person." if left > 0 else "",
    )


@rule
def after_person(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Once a person has set an amount for this customer, more of it goes to a person too."""
    if _amount(action) is None:
        return None
    granted = sum(r.amount_minor for r in facts.refunds if r.by_person)
    if not granted:
        return None
    return Ruling(
        RulingKind.ESCALATE,
        "person_decided_before",
        f"In this run a person has allowed {format_money(granted)}; "
        "more than that is theirs to decide.",
        risk=70,
        observed=_amount(action),
        limit=0,
        unit=CURRENCY,
    )


@rule
def same_again(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """The same amount to the same customer twice in a run is a slip, however worded (SUP-Q25).

    A run that is launched anew answers for the first one too; any other amount is for a person.
    """
    amount = _amount(action)
    customer = (action.get("args") or {}).get("user_id")
    same = [r for r in facts.refunds if r.amount_minor == amount and r.customer == customer]
    if same:
        who = "An earlier run of this request" if same[0].earlier else "This run"
        return Ruling(
            RulingKind.BLOCK,
            "duplicate_refund",
            f"{who} has already refunded {format_money(amount or 0)} to customer {customer}.",
            risk=85,
            observed=amount,
            unit=CURRENCY,
        )
    before = sum(r.amount_minor for r in facts.refunds if r.earlier and r.customer == customer)
    if amount is None or not before:
        return None
    return Ruling(
        RulingKind.ESCALATE,
        "refunded_by_earlier_run",
        f"An earlier run of this request has refunded {format_money(before)} to customer "
        f"{customer}; {format_money(amount)} more is for a person to decide.",
        risk=75,
        observed=amount,
        limit=0,
        unit=CURRENCY,
    )
