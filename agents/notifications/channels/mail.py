"""Mail: each within a total time limit, which also stops a server that drips."""

import asyncio
import smtplib
import time
from collections.abc import Sequence
from datetime import datetime
from email.utils import parseaddr
from smtplib import SMTPDataError, SMTPException, SMTPRecipientsRefused, SMTPResponseException
from socket import socket
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.core.validators import validate_email
from django.db import transaction
from django.utils.html import format_html

from agents.models import Delivery, InvitationState, Role, Workspace
from agents.notifications.channels import Channel, Message, NotDelivered, in_daemon
from agents.notifications.messages import INVITATION, LONGEST, Note, moment, url_of
from agents.record.event_kinds import EventKind
from agents.shell.refusal import Refused, require_member

TOTAL = 20.0  # seconds


class Mail(Channel):
    """Mail to members, each about all that is due, and to people who are invited."""

    name, label = "mail", "Email"
    recipients = ("user", "invitation")
    most = 20
    events = {
        "notifications.address": EventKind(
            "Mail address changed",
            lambda facts: (
                f"{'Set' if facts['email'] else 'Removed'} the mail address of {facts['user']}."
            ),
        )
    }

    async def send(self, message: Message, *, at: datetime) -> None:
        to = message.first.user or message.first.invitation
        subject, text = mail_of(message.notes, at=at)
        await send(to.email if to else "", subject, text, message=str(message.id))

    def why_not(self, to: Delivery) -> str:
        if to.invitation is None:
            return super().why_not(to)
        return "" if to.invitation.state == InvitationState.OPEN else "the invitation is over"

    def recipient(self, to: Delivery) -> str:
        return (to.invitation.email or "an invited person") if to.invitation else str(to.user)

    def where(self, user: User) -> str:
        there = "You have no email address yet, so nothing is sent to you."
        if user.email:
            there = format_html("Messages go to <b>{}</b>.", user.email)
        return format_html("{} Whoever operates this server sets the address.", there)


async def send(address: str, subject: str, text: str, *, message: str) -> None:
    """Send one mail to one address. Raises NotDelivered."""
    try:
        validate_email(address)
    except ValidationError:
        raise NotDelivered("no usable address", is_final=True, is_server=False) from None
    try:
        async with asyncio.timeout(2 * TOTAL):  # name resolution has no timeout of its own
            await in_daemon(_send, address, subject, text, message)
    except SMTPRecipientsRefused as error:
        code = max((code for code, _ in error.recipients.values()), default=0)
        fault = f"the mail server refused the address ({code})"
        raise NotDelivered(fault, is_final=code >= 500, is_server=False) from None
    except SMTPDataError as error:  # concerns this message: others need not wait
        fault = f"the mail server refused the message ({error.smtp_code})"
        raise NotDelivered(fault, is_server=False) from None
    except SMTPResponseException as error:
        raise NotDelivered(f"the mail server answered {error.smtp_code}") from None
    except (SMTPException, OSError) as error:
        raise NotDelivered(f"no answer of a mail server ({type(error).__name__})") from None


def _send(address: str, subject: str, text: str, message: str) -> None:
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2]
    headers = {"Message-ID": f"<{message}@{domain}>", "Auto-Submitted": "auto-generated"}
    EmailMessage(subject, text, to=[address], headers=headers).send()


class _Reader:
    """Reads a server's lines until a deadline, as each byte would restart a socket's timeout."""

    def __init__(self, sock: socket, end: float) -> None:
        self._sock, self._end = sock, end

    def readline(self, most: int) -> bytes:
        line = b""
        while len(line) < most and not line.endswith(b"\n"):
            left = self._end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            if not (byte := self._sock.recv(1)):
                break
            line += byte
        return line

    def close(self) -> None:
        """Do nothing: the socket belongs to its owner."""


class _Limited(smtplib.SMTP):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._end = time.monotonic() + TOTAL
        super().__init__(*args, **kwargs)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = _Reader(self.sock, self._end)
        return super().getreply()


class LimitedBackend(EmailBackend):
    """Django's backend, with TOTAL seconds for the whole connection."""

    connection_class = _Limited


def mail_of(notes: Sequence[Note], *, at: datetime) -> tuple[str, str]:
    """Return subject and text of one mail about these notes, as of a time."""
    # Only the newest note per request, which includes earlier ones, in the order of the newest:
    # a switch that was turned on, off and on again ends as on.
    newest: dict[object, Note] = {}
    for note in notes:
        key = note.facts.get("request") or (note.headline, note.url)
        newest.pop(key, None)
        newest[key] = note
    notes = list(newest.values())
    subject = notes[0].headline if len(notes) == 1 else f"{len(notes)} notifications"
    parts = ["\n".join([note.headline, *note.lines, note.url]) for note in notes]
    parts.append(
        "If you did not expect this invitation, ignore this mail: nothing will happen."
        if notes[0].kind == INVITATION
        else f"As of {moment(at)}; each page shows what is true now. Nothing can be "
        "decided by mail: open the page and sign in.\n"
        f"Choose your notifications: {url_of('notifications')}"
    )
    return f"[opsconsole] {subject}"[:LONGEST], "\n\n".join(parts) + "\n"


def set_email(*, workspace: Workspace, user: User, email: str, at: datetime, actor: str) -> None:
    """Set a person's email address; "": none. The address itself is not recorded."""
    try:
        if email:
            validate_email(email)
    except ValidationError:
        raise Refused("bad_email", "That is not the address of a mailbox.") from None
    with transaction.atomic():
        require_member(workspace, user, *Role)
        User.objects.filter(pk=user.pk).update(email=email)
        facts = {"user": user.get_username(), "email": bool(email)}
        workspace.say("notifications.address", at=at, facts=facts, actor=actor)
