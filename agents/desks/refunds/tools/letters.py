"""Letters to customers: sent by tools, and found by key.

The tools are SAFE, as a key's row is committed before its letter leaves. A second call sends a
letter that was not begun. Of one that was, it returns the outcome or cannot tell; nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.core.requests import Json
from agents.desks.refunds import mail
from agents.desks.refunds.models import SentMail
from agents.tools import Context, OutcomeUnknown


def send(post: Callable[..., SentMail], context: Context, **letter: Json) -> Json:
    """Send a letter with `post` and return the result. Raises OutcomeUnknown."""
    try:
        sent = post(book_id=context.book_id, key=context.key, at=context.at, **letter)
    except mail.MailRefused as error:
        return {"status": "error", "error": error.code}
    except mail.MailOutcomeUnknown:
        raise OutcomeUnknown(context.key) from None
    return _result(sent)


def find(key: str) -> Json:
    """Return the result of a key's letter, None if there is none. Raises OutcomeUnknown."""
    known = mail.find(key=key)
    if known and known.state != "sent":
        raise OutcomeUnknown(key)
    return _result(known) if known else None


def _result(sent: SentMail) -> Json:
    money = {} if sent.amount_minor is None else {"amount_minor": sent.amount_minor}
    letter = {"to": sent.to, "template": sent.template, **money, "message": sent.body}
    return {"status": "ok", "email": {**letter, "email_id": sent.reference}}
