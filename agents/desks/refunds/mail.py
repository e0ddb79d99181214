"""Write to a customer, at most once per key."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from smtplib import (
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPDataError,
    SMTPHeloError,
    SMTPNotSupportedError,
    SMTPRecipientsRefused,
    SMTPResponseException,
    SMTPSenderRefused,
)
from socket import gaierror

from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import transaction

from agents.core.money import MAX_MINOR, format_money
from agents.core.names import greeting
from agents.db.compiled import insert_new, new_row, update_row
from agents.desks.refunds import billing
from agents.desks.refunds.billing import KeyReused
from agents.desks.refunds.models import LONGEST_FAULT, Customer, MailState, SentMail
from opsconsole.desks import CallRefused, OutcomeUnknown

_TEMPLATE = "refund_confirmation_v2"
_SUBJECT = "Your refund of {0}"
_REPLY_TEMPLATE = "reply_v1"
_REPLY_SUBJECT = "Reply to your question"


# Errors after which nothing was sent: no server was reached, or it refused the mail.
_NOT_TAKEN = (
    *(ConnectionRefusedError, gaierror, SMTPConnectError, SMTPHeloError, SMTPNotSupportedError),
    *(SMTPAuthenticationError, SMTPSenderRefused, SMTPRecipientsRefused, SMTPDataError),
)


def refund_message(*, name: str, amount_minor: int, currency: str, reference: str) -> str:
    """Return the letter about a refund, in our own words."""
    amount = format_money(amount_minor, currency)
    return (
        f"{greeting(name)}\n\nWe have refunded {amount} to the card you paid with. The "
        f"reference is {reference}.\n\nIt may take a few days for the money to arrive.\n\n"
        "Kind regards,\nCustomer Support"
    )


def send_refund_mail(
    *,
    book_id: int,
    customer_number: int,
    amount_minor: int,
    currency: str,
    message: str,
    key: str,
    at: datetime,
) -> SentMail:
    """Send one mail about a refund. Raises CallRefused, KeyReused, OutcomeUnknown."""
    if not 1 <= amount_minor <= MAX_MINOR:
        raise CallRefused("email_amount_out_of_range")
    subject = _SUBJECT.format(format_money(amount_minor, currency))
    letter = _Letter(_TEMPLATE, subject, message, amount_minor, currency)
    return _post(book_id, customer_number, letter, key=key, at=at)


def send_reply_mail(
    *, book_id: int, customer_number: int, message: str, key: str, at: datetime
) -> SentMail:
    """Send one answer to a customer's question. Raises CallRefused, KeyReused, OutcomeUnknown."""
    letter = _Letter(_REPLY_TEMPLATE, _REPLY_SUBJECT, message)
    return _post(book_id, customer_number, letter, key=key, at=at)


@dataclass(frozen=True)
class _Letter:
    """The content of a mail; without an amount it is not about money."""

    template: str
    subject: str
    message: str
    amount_minor: int | None = None
    currency: str = ""


def _post(
    book_id: int, customer_number: int, letter: _Letter, *, key: str, at: datetime
) -> SentMail:
    """Send a letter once.

    The row is committed before the mail is sent. A crash in between leaves it "sending", and then
    only a person can tell: it is never sent again to find out.
    """
    try:
        begun = _begin(_recipient(book_id, customer_number), letter, key, at)
    except CallRefused:
        # A mail once begun keeps its receipt, even if the customer can no longer be written to.
        if find(key=key) is None:
            raise
        begun = None
    if begun:
        return _hand_over(begun, at)
    known = SentMail.objects.select_related("customer").get(key=key)
    if _order_of(known) != (book_id, customer_number, letter):
        raise KeyReused(key)
    if known.state != MailState.SENT:
        raise OutcomeUnknown(key)  # it was begun and never finished
    return known


def find(*, key: str) -> SentMail | None:
    """Return the mail of a key, or None if none was begun."""
    return SentMail.objects.filter(key=key).first()


def _recipient(book_id: int, customer_number: int) -> Customer:
    """Return the customer to write to, with exactly one address. Raises CallRefused."""
    customer = billing.customer(book_id=book_id, customer_number=customer_number)
    if customer is None:
        raise CallRefused(f"email_user_not_found:{customer_number}")
    try:
        validate_email(customer.email)  # a comma would make it two people, a line break a header
    except ValidationError:
        raise CallRefused(f"email_address_unusable:{customer_number}") from None
    return customer


def _begin(customer: Customer, letter: _Letter, key: str, at: datetime) -> SentMail | None:
    """Commit the row of a mail that is about to leave, or return None if the key was used."""
    mail = new_row(
        SentMail,
        book_id=customer.book_id,
        customer=customer,
        key=key,
        to=customer.email,
        template=letter.template,
        subject=letter.subject,
        body=letter.message,
        amount_minor=letter.amount_minor,
        currency=letter.currency,
        reference=f"em_{customer.number}_{sha256(key.encode()).hexdigest()[:12]}",
        started_at=at,
    )
    # Durable: within a caller's transaction the mail could be sent and its row rolled back.
    with transaction.atomic(durable=True):
        return mail if insert_new(mail) else None


def _hand_over(mail: SentMail, at: datetime) -> SentMail:
    """Send a mail and record that. Raises CallRefused if no server accepted it.

    Any other error leaves it "sending".
    """
    headers = {"Message-ID": message_id(mail.key)}
    message = EmailMessage(subject=mail.subject, body=mail.body, to=[mail.to], headers=headers)
    try:
        message.send()
    except _NOT_TAKEN as error:
        SentMail.objects.filter(pk=mail.pk).delete()  # nothing was sent
        raise CallRefused(f"email_not_taken:{_code_of(error)}") from error
    except Exception as error:  # stored, as a person may need it to find out
        mail.fault = _words_of(error)
        update_row(mail, "fault")
        raise
    mail.state, mail.sent_at = MailState.SENT, at
    update_row(mail, "state", "sent_at")
    return mail


def message_id(key: str) -> str:
    return f"<{sha256(key.encode()).hexdigest()[:32]}@opsconsole>"


def _code_of(error: Exception) -> str:
    """Return the mail server's code, or the name of the error that prevented a connection."""
    if isinstance(error, SMTPRecipientsRefused):
        return str(next(iter(error.recipients.values()))[0])
    return str(getattr(error, "smtp_code", type(error).__name__))


def _words_of(error: Exception) -> str:
    """Return the message of a mail server or connection, with the error's name."""
    if isinstance(error, SMTPResponseException):
        text = error.smtp_error
        words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return f"{error.smtp_code} {words}"[:LONGEST_FAULT]
    return f"{type(error).__name__}: {error}"[:LONGEST_FAULT]


def _order_of(mail: SentMail) -> tuple[int, int, _Letter]:
    letter = _Letter(mail.template, mail.subject, mail.body, mail.amount_minor, mail.currency)
    return mail.book_id, mail.customer.number, letter
