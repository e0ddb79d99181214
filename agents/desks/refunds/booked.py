"""The rows that calls leave in the desk's books."""

from __future__ import annotations

from agents.core.money import BadAmount
from agents.desks.refunds.models import Refund, SentMail
from agents.desks.refunds.models.mail import MailState
from agents.desks.refunds.models.refund import RefundState
from opsconsole.desks import Booked, Books, Json, Money


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


REFUNDS = Books(Refund.objects.select_related("charge__customer"), _refund)
_MAILS = SentMail.objects.select_related("customer")
EMAILS = Books(_MAILS.filter(amount_minor__isnull=False), _mail)
REPLIES = Books(_MAILS.filter(amount_minor=None), _mail)
