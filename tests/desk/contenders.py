"""The actions of a race's processes at the desk; each returns its outcome."""

from agents.desks.refunds import billing, mail
from agents.models import Book
from opsconsole.desks import OutcomeUnknown
from tests.desk.ordering import AT, letter, refund


def pays(book: int, amount: int, key: str) -> str:
    """Pay a refund; return its reference, or why not."""
    try:
        receipt = billing.pay(**refund(Book.objects.get(pk=book), amount_minor=amount, key=key))
    except billing.RefundRefused as refusal:
        return refusal.code
    return receipt.reference


def settles(book: int, verb: str, key: str) -> str:
    """Pay or release a held refund; return the outcome."""
    if verb == "release":
        return "released" if billing.release(key=key, at=AT) else "nothing to release"
    return pays(book, 50000, key)


def mails(book: int, key: str) -> str:
    """Send a mail that quotes its key; return its reference, or that nobody knows."""
    try:
        receipt = mail.send_refund_mail(**letter(Book.objects.get(pk=book), key=key, message=key))
    except OutcomeUnknown:
        return "unknown"
    return receipt.reference
