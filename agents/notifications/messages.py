"""Word a message from the rows it is about, at the moment it is sent.

Amount, whose it is and the rule's sentence, masked as the policy says; nothing that an
outsider or a model wrote, no secret, and no link that decides: it opens a page, which asks who
one is.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.urls import reverse

from agents.core.homoglyphs import invisible_characters
from agents.core.limits import BadPolicy
from agents.core.notifications import Kind
from agents.core.redact import KINDS, mask
from agents.core.requests import Json
from agents.engine.redaction import redact_for
from agents.models import Invitation, Notification, Shape
from agents.tools import ask_in_words

LONGEST = 200  # characters of a line
TEST = "test"  # the kind of what an admin sends to try a webhook
INVITATION = "invitation"  # and of what somebody gets who is no user yet
_HAPPENED = {
    Kind.OPENED: "Approval needed",
    Kind.ASSIGNED: "Assigned to {}",
    Kind.SECOND: "Approved by {}, awaits a second person",
    Kind.HALF_TIME: "Still unclaimed at half time",
    Kind.EXPIRING: "About to expire",
    Kind.EXPIRED: "Expired and rejected automatically",
    Kind.NOT_CARRIED_OUT: "Approved, but not carried out",
    Kind.ATTENTION: "A run needs attention",
}
_SWITCH = {"on": "turned on", "trial": "turned off for new runs", "off": "turned off"}


@dataclass(frozen=True)
class Note:
    """One thing to tell: a headline, what is known of it, and the page that has the rest."""

    kind: str
    headline: str
    lines: Sequence[str]
    url: str
    facts: Json  # the same for programs


def note_of(notification: Notification) -> Note:
    """Return what is told of a notification now."""
    run, request, kind = notification.run, notification.escalation, notification.kind
    facts: dict[str, Json] = {"kind": kind, "workspace": notification.workspace.slug}
    if kind == TEST:
        return Note(kind, "A test from opsconsole", ["It works."], _url("notifications"), facts)
    if kind == INVITATION:
        return _invitation_note(notification, facts)
    if run is None:
        stage, _, scope = notification.detail.partition(" ")
        thing = scope.partition(":")[2] or "all payments, emails and changes"
        by = _plain(notification.actor)
        headline = f"Kill switch {_SWITCH.get(stage, stage)} by {by}: {_plain(thing)}"
        return Note(kind, headline, [], _url("kill"), {**facts, "stage": stage, "scope": scope})
    facts["run"] = str(run.pk)
    told, lines, asked = _HAPPENED[Kind(kind)], [], _masked(notification, run.subject_label)
    url = _url("run", run.pk)
    if request is not None:
        asked = _masked(
            notification,
            ask_in_words(
                request.kind,
                request.action,
                asked=request.asked,
                subject=run.subject_label or request.subject_key,
            ),
        )
        why = _masked(notification, request.review["deciding"].get("sentence") or "")
        until = _moment(request.expires_at)
        lines = [line for line in (why, f"Deadline: {until}") if line]
        url = _url("approval", request.pk)
        # By name: those who hear of all and webhooks are told too, and it may have moved since.
        whose: object = request.assigned_to or request.assigned_team
        first = request.approval
        if kind == Kind.SECOND and first:
            whose = first.by
            lines = [f"Approved: {first.granted}", *lines] if first.granted else lines
        told = told.format(_plain(str(whose or "nobody")))
        facts |= {"request": request.pk, "expires_at": request.expires_at.isoformat()}
        facts |= {"amount_minor": request.amount_minor, "currency": request.currency}
        facts |= {"rule": request.review["deciding"].get("rule"), "why": why}
    facts |= {"asked": asked, "url": url}
    return Note(kind, f"{told}: {asked}" if asked else told, lines, url, facts)


def _invitation_note(notification: Notification, facts: Json) -> Note:
    made = Invitation.objects.get(pk=notification.about.partition(":")[2])
    headline = f"You are invited to {_plain(notification.workspace.name)}"
    lines = [f"As {made.role}, until {_moment(made.expires_at)}. The link works once."]
    return Note(INVITATION, headline, lines, _url("invitation", made.token), facts)


def mail_of(notes: Sequence[Note]) -> tuple[str, str]:
    """Return the subject and the text of one mail about some things."""
    subject = notes[0].headline if len(notes) == 1 else f"{len(notes)} notifications"
    parts = ["\n".join([note.headline, *note.lines, note.url]) for note in notes]
    parts.append(
        "If you expected no invitation, leave this mail alone: nothing happens then."
        if notes[0].kind == INVITATION
        else "Nothing can be decided by mail: open the page and sign in.\n"
        f"Choose your notifications: {_url('notifications')}"
    )
    return f"[opsconsole] {subject}"[:LONGEST], "\n\n".join(parts) + "\n"


def body_of(note: Note, shape: str, *, message: str, at: datetime) -> bytes:
    """Return the body of a call about one thing, in the shape that its receiver takes."""
    body: Json = {"id": message, "at": at.isoformat(), "headline": note.headline, **note.facts}
    if shape == Shape.SLACK:
        text = "\n".join([f"*{_slack(note.headline)}*", *map(_slack, note.lines)])
        body = {"text": f"{text}\n<{note.url}|Open>", "unfurl_links": False}
    if shape == Shape.TEAMS:
        body = {"type": "message", "attachments": [_card(note)]}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _card(note: Note) -> Json:
    # Of rich text nothing is read as Markdown: a name may hold what would be a link.
    runs = [{"type": "TextRun", "text": note.headline, "weight": "bolder"}]
    runs += [{"type": "TextRun", "text": f"\n{line}"} for line in note.lines]
    return {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "content": {
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [{"type": "RichTextBlock", "inlines": runs}],
            "actions": [{"type": "Action.OpenUrl", "title": "Open", "url": note.url}],
        },
    }


def _slack(text: str) -> str:
    """Return text of which Slack makes neither a link nor a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _masked(notification: Notification, text: str) -> str:
    try:
        return _plain(redact_for(notification.run, text)) if notification.run else ""
    except BadPolicy:
        return _plain(mask(text, KINDS))


# Mail readers and chats make a link of what looks like an address: a scheme, or a name with a dot
# in any of the forms that a browser takes for one.
_ADDRESS = re.compile(r"(\w)([.。．｡:])(?=//|[^\W\d])")


def _plain(text: str) -> str:
    """Return a line that ends no header, reorders nothing around it and makes no link."""
    hidden = set(invisible_characters(text))
    shown = "".join(
        " " if unicodedata.category(c)[0] in "CZ" else c for c in text if c not in hidden
    )
    line = _ADDRESS.sub(lambda found: f"{found[1]}[{found[2]}]", " ".join(shown.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _moment(at: datetime) -> str:
    return f"{at:%d %b %H:%M} UTC"


def _url(name: str, *args: object) -> str:
    return f"{settings.OPSCONSOLE_PUBLIC_URL}{reverse(name, args=args)}"
