"""Who is written to about a refund, and what the letter says."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.former import CURRENCY
from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.rulings import Ruling, RulingKind
from agents.desks.refunds.known import RefundFacts
from agents.policies import rule


@rule
def after_refund(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """No mail about a refund before there is one."""
    if action.get("name") != "send_refund_email":
        return None
    if any(refund.settled for refund in facts.refunds):
        sentence = "A refund was made in this run, so the customer may be told."
        return Ruling(RulingKind.APPROVE, "email_after_refund", sentence, 10)
    return Ruling(
        RulingKind.BLOCK,
        "email_before_refund",
        "No refund was made in this run, so there is nothing to write about.",
        risk=50,
        flip="After a refund of this run the customer may be told.",
    )


@rule
def from_ledger(action: Action, facts: RefundFacts, limits: Limits) -> Ruling | None:
    """Amount and words come from the ledger, one mail a refund (SUP-Q10)."""
    if action.get("name") != "send_refund_email":
        return None
    args, mail = action["args"], facts.mail
    if mail is None or mail.customer != args["user_id"]:
        sentence = "Every refund of this run to this customer has been written about."
        return Ruling(RulingKind.BLOCK, "nothing_to_mail", sentence, 60)
    amount = args.get("amount_minor")
    if amount == mail.amount_minor and args.get("message") == mail.message:
        return None
    ledger = {"user_id": mail.customer, "amount_minor": mail.amount_minor, "message": mail.message}
    return Ruling(
        RulingKind.REVISE,
        "mail_from_ledger",
        f"The email says what the ledger says: {format_money(mail.amount_minor)} was refunded.",
        risk=30,
        observed=amount if amount != mail.amount_minor else None,
        limit=mail.amount_minor,
        unit=CURRENCY,
        action={**action, "args": ledger},
    )
