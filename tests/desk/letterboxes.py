"""Failing mail backends, and one that inspects the desk while a mail is under way."""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection

from agents.desks.refunds.models import SentMail
from tests.engine.memory import Crash
from tests.engine.scene import in_thread

seen: list[tuple[str, bool]] = []
calls: list[Callable[[], str]] = []  # to make while a mail is under way
told: list[str] = []  # what they returned


@contextmanager
def refusing(word: str) -> Iterator[int]:
    """Serve one client as a mail server that answers 550 to this word ("": at once)."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client, client.makefile("rw", newline="") as lines:
                said = "" if word == "" else "220 here"
                while True:
                    print(said or "550 not by us", end="\r\n", file=lines, flush=True)
                    asked = lines.readline()[:4].strip()
                    if not asked:
                        return
                    said = "" if asked == word else "250 fine"

        thread = Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


class Watching(BaseEmailBackend):
    """Notes the rows, and whether a transaction is open, while the mail leaves."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        states = SentMail.objects.values_list("state", flat=True)
        seen.extend((state, connection.in_atomic_block) for state in states)
        return len(email_messages)


class Broken(BaseEmailBackend):
    """Loses the connection, so that nobody knows whether the mail left."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        raise ConnectionResetError("the server hung up")


class CalledAgain(BaseEmailBackend):
    """Makes a call in another thread while the mail leaves."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        in_thread(lambda: told.append(calls[0]()))
        return len(email_messages)


class Deadly(BaseEmailBackend):
    """Ends the worker while a mail is under way."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        raise Crash("in the middle of a mail")
