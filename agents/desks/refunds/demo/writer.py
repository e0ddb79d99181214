"""The demo model as writer: the closing answer, from the history alone."""

from __future__ import annotations

from agents.core.requests import Json


def writer_reply(inputs: Json) -> str:
    """Return a few sentences on what was done according to the history."""
    done = [
        (past["executed_action"]["name"], past["observation"])
        for past in inputs["history"]
        if past["observation"].get("status") == "ok"
    ]
    refunds = [seen["refund"] for name, seen in done if name == "issue_refund"]
    if not refunds:
        return "Nothing was refunded."
    mails = [seen for name, seen in done if name == "send_refund_email"]
    return " ".join(
        told_of_refund(
            refund["amount_usd"], customer=refund["user_id"], mailed=number <= len(mails)
        )
        for number, refund in enumerate(refunds, 1)
    )


def told_of_refund(amount_usd: float, *, customer: int, mailed: bool) -> str:
    """Return the sentence about a refund."""
    mail = "the customer was told by email" if mailed else "no email was sent"
    return f"{usd(amount_usd)} was refunded to customer {customer}; {mail}."


def who_is(customer: int, seen: Json) -> str:
    """Return a customer as the beginning of a sentence; an erased one has no name."""
    name = seen["user"]["name"]
    return f"Customer {customer} is {name}" if name else f"Customer {customer} has no name on file"


def usd(amount: float) -> str:
    """Return an amount for an answer: 1,200.00 USD."""
    return f"{amount:,.2f} USD"
