"""What a workflow may put out, and what of it may be sent to a customer."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.digest import sha256
from agents.core.limits import Limits
from agents.core.rulings import Ruling, RulingKind
from agents.desks.refunds.known import RefundFacts
from agents.policies import rule


@rule
def output(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """An output changes nothing by itself; other rules hold its claims against the ledger."""
    if action.get("kind") != "final":
        return None
    sentence = "The result of a step changes nothing by itself."
    return Ruling(RulingKind.APPROVE, "output_changes_nothing", sentence, 5)


@rule
def as_accepted(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Only a text that its supervision let stand is sent, word for word."""
    if action.get("name") != "send_reply":
        return None
    if sha256(action["args"]["message"]) in facts.accepted:
        sentence = "This text was accepted in an earlier step of the run."
        return Ruling(RulingKind.APPROVE, "reply_accepted", sentence, 20)
    return Ruling(
        RulingKind.BLOCK,
        "reply_not_accepted",
        "This text differs from what was accepted earlier in the run, so it is not sent.",
        risk=80,
        flip="A text that was accepted in an earlier step may be sent unchanged.",
    )


@rule
def once(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """One reply a run: a correction afterwards does not write a second time."""
    if action.get("name") != "send_reply" or not facts.replies:
        return None
    sentence = "This run has written to the customer already."
    return Ruling(RulingKind.BLOCK, "reply_sent_already", sentence, 70, facts.replies, 1, "letters")
