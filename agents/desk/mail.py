"""Write to a customer about a refund, at most once a key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from agents.core.money import spoken
from agents.desk import billing
from agents.desk.models import Customer, SentMail
from agents.desk.models.mail import MailState

TEMPLATE = "refund_confirmation_v2"
SUBJECT = "Your refund"


class MailRefused(Exception):
    """The mail cannot be written; `code` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class OutcomeUnknown(Exception):
    """The mail was begun and never finished: nobody knows whether it left."""


@dataclass(frozen=True)
class MailReceipt:
    """What became of a key."""

    key: str
    reference: str
    to: str
    template: str
    amount_minor: int
    message: str
    state: str  # sending, sent


def refund_message(*, name: str, amount_minor: int, currency: str, reference: str) -> str:
    """Return the letter about a refund, in words that nobody but us chose."""
    return (
        f"Hello {name},\n\nwe have refunded {spoken(amount_minor, currency)} to the card you "
        f"paid with. The reference is {reference}.\n\nIt may take a few days to show."
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
) -> MailReceipt:
    """Send one mail. Raises MailRefused, OutcomeUnknown.

    The row is committed before the mail leaves. A crash in between leaves it "sending", and
    then only a person can tell: it is never sent twice to find out.
    """
    known = SentMail.objects.filter(key=key).first()
    if known is None:
        found = billing.customer(book_id=book_id, customer_number=customer_number)
        if found is None:
            raise MailRefused(f"email_user_not_found:{customer_number}")
        validate_email(found.email)  # one address; a comma would make it two
        known = _begun(found, amount_minor, currency, message, key, at)
        _send(known)
        SentMail.objects.filter(pk=known.pk).update(state=MailState.SENT, sent_at=at)
        known.state = MailState.SENT
    if known.state != MailState.SENT:
        raise OutcomeUnknown(key)
    return _receipt(known)


def find(*, key: str) -> MailReceipt | None:
    """Return what became of a key, or None where no mail was begun."""
    known = SentMail.objects.filter(key=key).first()
    return _receipt(known) if known else None


def _begun(
    customer: Customer, amount_minor: int, currency: str, message: str, key: str, at: datetime
) -> SentMail:
    """Commit the row of a mail that is about to leave. Raises OutcomeUnknown if another has."""
    try:
        with transaction.atomic():
            return SentMail.objects.create(
                book_id=customer.book_id,
                customer=customer,
                key=key,
                to=customer.email,
                template=TEMPLATE,
                subject=SUBJECT,
                body=message,
                amount_minor=amount_minor,
                currency=currency,
                reference=f"em_{customer.number}_{sha256(key.encode()).hexdigest()[:12]}",
                started_at=at,
            )
    except IntegrityError:
        raise OutcomeUnknown(key) from None


def _send(mail: SentMail) -> None:
    message_id = f"<{sha256(mail.key.encode()).hexdigest()[:32]}@opsconsole>"
    EmailMessage(
        subject=mail.subject, body=mail.body, to=[mail.to], headers={"Message-ID": message_id}
    ).send()


def _receipt(mail: SentMail) -> MailReceipt:
    return MailReceipt(
        key=mail.key,
        reference=mail.reference,
        to=mail.to,
        template=mail.template,
        amount_minor=mail.amount_minor,
        message=mail.body,
        state=str(mail.state),
    )
