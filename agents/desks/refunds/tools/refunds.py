"""Refund tools, on the desk's books."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from agents.core.former import CURRENCY
from agents.core.kinds import ACTION, ADJUST, APPROVE, REJECT, RETURN, Answer
from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.names import greeting, is_plain_name, plan_in_words
from agents.core.requests import Json
from agents.desks.refunds import billing, mail, refunds
from agents.desks.refunds.limits import refund_limits
from agents.desks.refunds.tools import letters
from agents.tools import Context, Minor, Touch, tool

REFUND = replace(
    ACTION,
    tag="refund",
    asks="Refund {asked} to {subject}",
    answers=(
        Answer(
            ADJUST,
            "Adjust amount",
            "Pay {subject} {amount} instead of {asked}",
            "Pay {amount} to {subject}",
        ),
        Answer(APPROVE, "Approve", "Pay {subject} {asked}", "Pay {asked} to {subject}"),
        RETURN,
        Answer(REJECT, "Reject", "Pay {subject} nothing, and end the run", "Reject, pay nothing"),
    ),
    labels={"amount_minor": "Pay {subject}"},
    grants=("Partly used", "Goodwill", "Exception, reduced amount", "Per contract"),
    refusals=("Outside the terms", "Already refunded", "Not the customer's request", "Suspicious"),
    done="{amount} was paid to {subject}.",
    undone="Nothing was paid on this request.",
    pending="{amount} was approved. It has not been paid yet.",
    under_way="The payment of {amount} was started. Its outcome is not known yet.",
    lost="Was the refund of {asked} to {subject} paid?",
    events={
        "intended": "Started to pay {amount}{to}.",
        "done": "Paid {amount}{to}.",
        "refused": "Did not pay {amount}{to}: the system of record refused.",
        "unknown": "It is not known whether {amount} was paid{to}. A person is asked.",
    },
)


def _context_sentences(found: Json) -> dict[str, str]:
    """Return sentences on a customer's context by name."""
    window = int(found["policy_hint"]["refund_window_days"])
    said = {"window": f"A charge can be refunded for {window} days."}
    name, charge = str(found["user"]["name"]), found["billing"]
    if is_plain_name(name):
        said["greeting"] = greeting(name)
    if charge:
        amount = format_money(charge["last_charge_minor"], charge["currency"])
        days, plan = charge["days_since_payment"], plan_in_words(str(charge["plan"]))
        bought = f" for {plan}" if plan else ""
        said["charge"] = f"The last charge was {amount}{bought}, {days} days ago."
    return said


@tool(Touch.READ, timeout=5, may_say=_context_sentences)
def get_refund_context(context: Context, *, user_id: int) -> Json:
    """Return a customer, their latest charge and the policy's hint."""
    found = billing.customer_context(
        book_id=context.book_id, customer_number=user_id, at=context.at
    )
    if found is None:
        return {"error": f"context_not_found_for_user:{user_id}"}
    return {**found, "policy_hint": policy_hint(context.limits)}


def policy_hint(limits: Limits) -> dict[str, Json]:
    """Return the part of a context about the policy."""
    own, told = refund_limits(limits), limits.reference.told_limit_minor
    return {
        "auto_refund_limit_minor": own.auto_limit_minor if told is None else told,
        "refund_window_days": own.window_days,
    }


def _hold(
    context: Context, *, user_id: int, amount_minor: Minor, reason: str | None = None
) -> None:
    """Hold the amount on the charge; if that is impossible, the refund itself will refuse it."""
    with suppress(refunds.RefundRefused):
        refunds.reserve(**_pay_request(context, user_id, amount_minor, reason or ""))


def _release(key: str, at: datetime) -> bool:
    return refunds.release(key=key, at=at)


def _find_refund(key: str) -> Json:
    receipt = refunds.find(key=key)
    return _receipt_reply(receipt) if receipt and receipt.state == "paid" else None


def _valid_refund(result: Json, args: Json) -> bool:
    """Tell whether an "ok" names the requested amount; any other result paid nothing (SUP-Q30)."""
    if result.get("status") != "ok":
        return True
    paid = result.get("refund")
    return isinstance(paid, dict) and paid.get("amount_minor") == args["amount_minor"]


@tool(
    Touch.SAFE,
    timeout=10,
    reserve=_hold,
    release=_release,
    find=_find_refund,
    valid=_valid_refund,
    after="{amount} was refunded to customer {subject}.",
    request=REFUND,
)
def issue_refund(
    context: Context, *, user_id: int, amount_minor: Minor, reason: str | None = None
) -> Json:
    """Pay part of the latest charge back to a customer. The same key pays once."""
    try:
        receipt = refunds.pay(**_pay_request(context, user_id, amount_minor, reason or ""))
    except refunds.RefundRefused as error:
        most = {} if error.max_minor is None else {"max_refund_minor": error.max_minor}
        return {"status": "error", "error": error.code, **most}
    return _receipt_reply(receipt)


def _pay_request(context: Context, user_id: int, amount_minor: int, reason: str) -> dict[str, Json]:
    return {
        "book_id": context.book_id,
        "customer_number": user_id,
        "amount_minor": amount_minor,
        "currency": CURRENCY,
        "reason": reason,
        "key": context.key,
        "at": context.at,
    }


def _receipt_reply(receipt: refunds.Receipt) -> Json:
    return {
        "status": "ok",
        "refund": {
            "user_id": receipt.customer_number,
            "currency": receipt.currency,
            "amount_minor": receipt.amount_minor,
            "reason": receipt.reason,
            "transaction_id": receipt.reference,
        },
    }


@tool(
    Touch.SAFE,
    timeout=20,
    find=letters.find,
    after="The customer was told by email.",
    letter="message",
    tells="issue_refund",
    gauge="refunds_untold",
)
def send_refund_email(context: Context, *, user_id: int, amount_minor: Minor, message: str) -> Json:
    """Write to a customer about a refund. The same key sends at most one mail."""
    return letters.send(
        mail.send_refund_mail,
        context,
        customer_number=user_id,
        amount_minor=amount_minor,
        currency=CURRENCY,
        message=message,
    )
