"""What agents of the desk can call, on its books."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from agents.core.compat_0_2 import CURRENCY
from agents.core.decisions import ACTION, ADJUST, APPROVE, REJECT, RETURN, Answer
from agents.core.money import BadAmount, format_money
from agents.core.names import greeting, is_plain_name, plan_in_words
from agents.desks.refunds import billing, mail
from agents.desks.refunds.declared import CUSTOMER, Minor, desk
from agents.desks.refunds.limits import RefundLimits
from agents.desks.refunds.models import MailState, Refund, RefundState, SentMail
from opsconsole.desks import Asked, Booked, Books, Call, Json, Lower, Money, OutcomeUnknown, Touch

# The rows that calls leave in the desk's books.


def _refund(row: Refund) -> Booked:
    customer, is_paid = row.charge.customer, row.state == RefundState.PAID
    args = {"user_id": customer.number, "amount_minor": _amount(row)}
    return Booked(row.key, args, customer.book_id, is_paid, str(row.charge_id))


def _mail(row: SentMail) -> Booked:
    customer, is_sent = row.customer, row.state == MailState.SENT
    is_of_book = customer.book_id == row.book_id
    to = customer.number if is_of_book else f"{customer.number} of book {customer.book_id}"
    args: Json = {"user_id": to, "message": row.body}
    if row.amount_minor is not None:
        args["amount_minor"] = _amount(row)
    return Booked(row.key, args, row.book_id, is_sent)


def _amount(row: Refund | SentMail) -> Json:
    """Return what was paid, or as a text what somebody wrote who changed the row."""
    try:
        return Money(row.amount_minor or 0, row.currency)
    except BadAmount:
        return f"{row.amount_minor} {row.currency}"


_REFUNDS = Books(Refund.objects.select_related("charge__customer"), _refund)
_MAILS = SentMail.objects.select_related("customer")
_EMAILS = Books(_MAILS.filter(amount_minor__isnull=False), _mail)
_REPLIES = Books(_MAILS.filter(amount_minor=None), _mail)


_REFUND = replace(
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
    grants=("Partly used", "Goodwill", "Exception", "Per contract"),
    refusals=("Outside the terms", "Already refunded", "Not the customer's request", "Suspicious"),
    done="{amount} was paid to {subject}.",
    undone="Nothing was paid on this request.",
    pending="{amount} was approved. It has not been paid yet.",
    doing="Paying {amount} to {subject}…",
    under_way="The payment of {amount} was started. Its outcome is not known yet.",
    lost="Was the refund of {asked} to {subject} paid?",
    events={
        "intended": "Started to pay {amount}{to}.",
        "done": "Paid {amount}{to}.",
        "refused": "Did not pay {amount}{to}: the system of record refused.",
        "unknown": "It is not known whether {amount} was paid{to}. A person is asked.",
    },
)


def _context_sentences(context: Json) -> dict[str, str]:
    """Return sentences on a customer's context by name."""
    window = int(context["policy_hint"]["refund_window_days"])
    sentences = {"window": f"A charge can be refunded for {window} days."}
    name, charge = str(context["user"]["name"]), context["billing"]
    if is_plain_name(name):
        sentences["greeting"] = greeting(name)
    if charge:
        amount = format_money(charge["last_charge_minor"], charge["currency"])
        days, plan = charge["days_since_payment"], plan_in_words(str(charge["plan"]))
        bought = f" for {plan}" if plan else ""
        sentences["charge"] = f"The last charge was {amount}{bought}, {days} days ago."
    return sentences


def _context_now(asked: Asked) -> Json:
    books = asked.fetched
    context = billing.context_of(books.account, books.customer) if books.account else {}
    return {**context, "policy_hint": policy_hint(asked.limits)}


@desk.tool(
    Touch.READ,
    title="Look up customer",
    subject=CUSTOMER,
    timeout=5,
    may_say=_context_sentences,
    now=_context_now,
)
def get_refund_context(call: Call, *, user_id: int) -> Json:
    """Return a customer, their charges and the policy's hint."""
    context = billing.customer_context(book_id=call.book, customer_number=user_id, at=call.at)
    if context is None:
        return {"error": f"context_not_found_for_user:{user_id}"}
    return {**context, "policy_hint": policy_hint(call.limits)}


def policy_hint(limits: RefundLimits) -> dict[str, Json]:
    """Return the part of a context about the policy."""
    return {
        "auto_refund_limit_minor": int(limits.auto_limit_minor),
        "refund_window_days": int(limits.window_days),
    }


def _hold(
    call: Call, *, user_id: int, amount_minor: int, reason: str | None, charge: str | None = None
) -> None:
    """Hold the amount on the charge that was judged, whichever the call names.

    If that is impossible, the refund itself will refuse it.
    """
    if not call.resource:
        return
    order = _pay_request(call, user_id, amount_minor, reason)
    with suppress(billing.RefundRefused):
        billing.reserve(**order, charge_id=int(call.resource))


def _find_refund(key: str) -> Json:
    receipt = billing.find(key=key)
    return _receipt_reply(receipt) if receipt and receipt.state == "paid" else None


def _valid_refund(result: Json, args: Json) -> bool:
    """Tell whether an "ok" names the requested amount; any other result paid nothing (SUP-Q30)."""
    if result.get("status") != "ok":
        return True
    paid = result.get("refund")
    return isinstance(paid, dict) and paid.get("amount_minor") == args["amount_minor"]


@desk.tool(
    Touch.SAFE,  # the same key pays once
    title="Issue refund",
    deed="refund",
    before="Pay {subject} {amount_minor}.",
    after="{amount_minor} was refunded to customer {user_id}.",
    subject=CUSTOMER,
    amount="amount_minor",
    may_change={"amount_minor": Lower()},
    reserve=_hold,
    release=billing.release,
    find=_find_refund,
    valid=_valid_refund,
    here=True,
    booked=_REFUNDS,
    request=_REFUND,
)
def issue_refund(
    call: Call,
    *,
    user_id: int,
    amount_minor: Minor,
    reason: str | None = None,
    charge: str | None = None,
) -> Json:
    """Pay part of a charge back; of several, `charge` names it. The same key pays once."""
    try:
        order = _pay_request(call, user_id, amount_minor, reason)
        receipt = billing.pay(**order, held_only=charge is not None)
    except billing.RefundRefused as error:
        most = {} if error.max_minor is None else {"max_refund_minor": error.max_minor}
        return {"status": "error", "error": error.code, **most}
    return _receipt_reply(receipt)


def _pay_request(
    call: Call, user_id: int, amount_minor: int, reason: str | None
) -> dict[str, Json]:
    return {
        "book_id": call.book,
        "customer_number": user_id,
        "amount_minor": amount_minor,
        "currency": CURRENCY,
        "reason": reason or "",
        "key": call.key,
        "at": call.at,
    }


def _receipt_reply(receipt: billing.Receipt) -> Json:
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


# A key's row is committed before its letter leaves, so letters are SAFE. A second call sends one
# that was not begun; of one that was, it returns the outcome or cannot tell.
def _of_call(call: Call) -> dict[str, Any]:
    return {"book_id": call.book, "key": call.key, "at": call.at}


def _find_letter(key: str) -> Json:
    """Return the result of a key's letter, None if there is none. Raises OutcomeUnknown."""
    known = mail.find(key=key)
    if known and known.state != "sent":
        raise OutcomeUnknown(key)
    return _letter(known) if known else None


def _letter(sent: SentMail) -> Json:
    money = {} if sent.amount_minor is None else {"amount_minor": sent.amount_minor}
    letter = {"to": sent.to, "template": sent.template, **money, "message": sent.body}
    return {"status": "ok", "email": {**letter, "email_id": sent.reference}}


@desk.tool(
    Touch.SAFE,
    title="Send refund email",
    deed="email",
    before="Email {subject} about {amount_minor}.",
    after="The customer was told of {amount_minor} by email.",
    subject=CUSTOMER,
    amount="amount_minor",
    letter="message",
    tells=issue_refund,
    gauge="refunds_untold",
    find=_find_letter,
    booked=_EMAILS,
    timeout=20,
)
def send_refund_email(call: Call, *, user_id: int, amount_minor: Minor, message: str) -> Json:
    """Write to a customer about a refund. The same key sends at most one mail."""
    about: Json = {"customer_number": user_id, "amount_minor": amount_minor, "currency": CURRENCY}
    return _letter(mail.send_refund_mail(**_of_call(call), **about, message=message))


@desk.tool(
    Touch.SAFE,
    title="Send reply",
    deed="reply",
    before="Email {subject}.",
    after="A reply was sent to customer {user_id}.",
    subject=CUSTOMER,
    letter="message",
    find=_find_letter,
    booked=_REPLIES,
    timeout=20,
)
def send_reply(call: Call, *, user_id: int, message: str) -> Json:
    """Write to a customer, at most once per key. Only a text supervised in this run may be sent."""
    sent = mail.send_reply_mail(**_of_call(call), customer_number=user_id, message=message)
    return _letter(sent)
