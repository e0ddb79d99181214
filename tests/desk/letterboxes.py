"""Mail backends that go wrong, and one that looks at the desk while it has the mail."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection

from agents.desks.refunds.models import SentMail
from tests.engine.memory import Crash

seen: list[tuple[str, bool]] = []


class Watching(BaseEmailBackend):
    """Notes what the rows say, and whether a transaction is open, while the mail leaves."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        states = SentMail.objects.values_list("state", flat=True)
        seen.extend((state, connection.in_atomic_block) for state in states)
        return len(email_messages)


class Broken(BaseEmailBackend):
    """Loses the connection; whether the mail had left by then, nobody knows."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        raise ConnectionResetError("the server hung up")


class Deadly(BaseEmailBackend):
    """Ends the worker while it has the mail."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        raise Crash("in the middle of a mail")
