"""On whom a run may act, and what it must have read before money moves."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.limits import Limits
from agents.core.rulings import Ruling, RulingKind
from agents.desks.refunds.known import RefundFacts
from agents.policies import rule

MOVES_MONEY = ("issue_refund", "send_refund_email")


@rule
def bound(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Only the customer that the run was launched for; also for reads (SUP-Q9)."""
    named = action.get("args", {}).get("user_id")
    if named is None or (facts.subject is not None and named == facts.subject):
        return None
    return Ruling(
        RulingKind.BLOCK,
        "subject_mismatch",
        f"The action names customer {named}, but the run is about "
        f"{'nobody' if facts.subject is None else f'customer {facts.subject}'}.",
        risk=95,
        observed=named,
        limit=facts.subject,
    )


@rule
def context_before_money(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Money and mail only after the customer's context was read in this run (SUP-Q8)."""
    if action.get("name") not in MOVES_MONEY:
        return None
    customer = action["args"]["user_id"]
    if customer in facts.context_of:
        return None
    return Ruling(
        RulingKind.BLOCK,
        "context_required",
        f"The record of customer {customer} has not been read in this run, so no money moves.",
        risk=80,
        observed=list(facts.context_of),
        limit=customer,
        flip="Call get_refund_context first: once the record has been read, the action is reviewed "
        "on its merits.",
    )


@rule
def reading(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Reading a customer's context changes nothing."""
    if action.get("name") != "get_refund_context":
        return None
    return Ruling(
        RulingKind.APPROVE, "read_only_context", "Reading the customer's record changes nothing.", 5
    )
