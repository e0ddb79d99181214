"""Answer a customer's question by mail."""

from __future__ import annotations

from agents.core.requests import Json
from agents.desks.refunds import mail
from agents.tools import Context, OutcomeUnknown, Touch, tool


def _find(key: str) -> Json:
    receipt = mail.find(key=key)
    if receipt and receipt.state != "sent":
        raise OutcomeUnknown(key)
    return _sent(receipt) if receipt else None


@tool(
    Touch.ONCE,
    timeout=20,
    find=_find,
    after="A reply was sent to customer {subject}.",
    letter="message",
)
def send_reply(context: Context, *, user_id: int, message: str) -> Json:
    """Write to a customer, once. Only a text that was supervised in this run may be sent."""
    try:
        receipt = mail.send_reply_mail(
            book_id=context.book_id,
            customer_number=user_id,
            message=message,
            key=context.key,
            at=context.at,
        )
    except mail.MailRefused as error:
        return {"status": "error", "error": error.code}
    except mail.MailOutcomeUnknown:
        raise OutcomeUnknown(context.key) from None
    return _sent(receipt)


def _sent(receipt: mail.MailReceipt) -> Json:
    letter = {"to": receipt.to, "template": receipt.template, "message": receipt.message}
    return {"status": "ok", "email": {**letter, "email_id": receipt.reference}}
