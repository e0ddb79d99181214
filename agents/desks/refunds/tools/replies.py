"""Answer a customer's question by mail."""

from __future__ import annotations

from agents.core.requests import Json
from agents.desks.refunds import mail
from agents.desks.refunds.tools import letters
from agents.tools import Context, Touch, tool


@tool(
    Touch.SAFE,
    timeout=20,
    find=letters.find,
    after="A reply was sent to customer {subject}.",
    letter="message",
)
def send_reply(context: Context, *, user_id: int, message: str) -> Json:
    """Write to a customer, at most once per key. Only a text supervised in this run may be sent."""
    return letters.send(mail.send_reply_mail, context, customer_number=user_id, message=message)
