"""No answer about a customer whom nobody has looked up."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.limits import Limits
from agents.core.rulings import Ruling, RulingKind
from agents.desks.refunds.known import RefundFacts
from agents.policies import rule


@rule
def after_context(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """No answer about a customer whose context was never read."""
    if action.get("kind") != "final":
        return None
    if facts.context_of:
        sentence = "The customer's record was read, so the run may answer."
        return Ruling(RulingKind.APPROVE, "final_with_context", sentence, 5)
    return Ruling(
        RulingKind.BLOCK,
        "final_requires_context",
        "The run answers without having read the customer's record.",
        risk=40,
        flip="Call get_refund_context first: once the record has been read, the answer is reviewed "
        "on its merits.",
    )
