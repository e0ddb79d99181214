"""Refunds to customers who live where we do not trade."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.limits import Limits
from agents.core.rulings import Ruling, RulingKind
from agents.desks.refunds.known import RefundFacts
from agents.policies import rule

HOME = ("CA", "US")


@rule
def needs_person(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """A refund leaves the country only when a person agrees; an unknown country is abroad."""
    if action.get("name") != "issue_refund" or facts.country in HOME:
        return None
    return Ruling(
        RulingKind.ESCALATE,
        "refund_abroad",
        f"The customer lives in {facts.country or 'an unknown country'}, where we do not trade.",
        risk=50,
        observed=facts.country or None,
        limit=list(HOME),
        flip=f"A refund to {' or '.join(HOME)} would not have been asked about.",
    )
