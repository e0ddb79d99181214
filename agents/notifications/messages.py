"""Word a message from current rows at the moment it is sent.

It has the amount, the subject and the rule's sentence, masked by the policy; no words of outsiders
or models, no secret, and no link that decides: links open pages, which require a sign-in.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.urls import reverse

from agents.core.decisions import ACTION
from agents.core.limits import BadPolicy
from agents.core.names import invisible_characters
from agents.core.notifications import UNKNOWN, Kind
from agents.core.redact import KINDS, mask
from agents.core.requests import EscalationState, Json
from agents.engine.redaction import redact_to_tell
from agents.engine.tools.attention import attention_of
from agents.models import Escalation, Invitation, Notification, Run
from agents.policies.words import end_sentence, why_not
from agents.shell.formats import WORDS
from agents.tools import request_of

LONGEST = 200  # characters of a line
TEST = "test"  # kind of an admin's test of a channel
INVITATION = "invitation"  # kind of a message to someone who is not a user yet
BREAK_GLASS = "break_glass"  # kind of a message about that account's sign-in
NOTICES = WORDS["notices"]
_HAPPENED = WORDS["notes"] | {Kind.EXPIRED: ACTION.expiry_words}
_OF_POLICY = WORDS["notes_of_policy"]
_OF_QUESTION = {Kind.OPENED: "Decision needed"}  # of a draft, an email, a question or a case
# For a call whose answer was lost: nothing is approved or rejected.
_OF_LOST = {Kind.OPENED: "Answer needed", Kind.EXPIRED: "Expired without an answer"}
_ATTENTION = WORDS["attention"]
_MEANS, _SWITCH = WORDS["switch_means"], WORDS["switch"]


@dataclass(frozen=True)
class Note:
    """One item of a message: a headline, details, and the page that has the rest."""

    kind: str
    headline: str
    lines: Sequence[str]
    url: str
    facts: Json  # the same for programs


def note_of(notification: Notification) -> Note:
    """Return a notification's content as of now."""
    run, request, kind = notification.run, notification.escalation, notification.kind
    facts: dict[str, Json] = {"kind": kind, "workspace": notification.workspace.slug}
    home = f"Workspace: {_plain(notification.workspace.name)}"
    if kind == TEST:
        return Note(kind, "A test from opsconsole", ["It works."], url_of("notifications"), facts)
    if kind == INVITATION:
        return _invitation_note(notification, facts)
    if kind == BREAK_GLASS:
        name = _plain(notification.about.partition(":")[2].partition(" ")[0])
        headline = f"The break-glass account {name} signed in"
        return Note(kind, headline, [home, "Ask who used it, and why."], url_of("audit"), facts)
    if kind in _OF_POLICY:
        name, number = _plain(notification.actor), notification.detail
        headline, path = _OF_POLICY[Kind(kind)], ("policy-draft", int(number))
        url = url_of(*path) if kind == Kind.DRAFT else url_of("policy")
        return Note(kind, headline.format(name, number), [home], url, facts | {"detail": number})
    if run is None:
        stage, _, scope = notification.detail.partition(" ")
        thing = scope.partition(":")[2] or "all payments, emails and changes"
        by = _plain(notification.actor)
        headline = f"Kill switch {_SWITCH.get(stage, stage)} by {by}: {_plain(thing)}"
        lines = [home, *filter(None, [_MEANS.get(stage)])]
        facts |= {"stage": stage, "scope": scope}
        return Note(kind, headline, lines, url_of("kill"), facts)
    facts["run"] = str(run.pk)
    happened, what = _HAPPENED[Kind(kind)], _mask(notification, run.subject_label)
    matter, url = _why_attention(notification, run), url_of("run", run.pk)
    lines = [matter]
    if request is not None:
        request.run = run  # read already
        what = _mask(notification, request.in_words())
        whom = _mask(notification, run.subject_label)
        what += f" ({whom})" if whom and whom not in what else ""
        why = _mask(notification, _why_asked(request))
        lines, url = [matter or why, _deadline(request)], url_of("approval", request.pk)
        of = request_of(run.desk, request.kind, request.action)
        if request.kind != ACTION.stored:
            happened = _OF_QUESTION.get(Kind(kind), happened)
        if kind == Kind.EXPIRED:
            happened = of.expiry_words
            if of.ends_run:  # the request's reason says what to do, which is too late
                lines[0] = of.undone
        if of.settles_call:
            happened = _OF_LOST.get(Kind(kind), happened)
        # By name: others may read it, and the request may have been handed over since.
        whose: object = request.assigned_to or request.assigned_team
        first = request.approval
        if kind == Kind.SECOND and first:
            whose = first.by
            lines = [first.granted and f"Approved: {first.granted}", *lines]
        if kind in (Kind.NOT_CARRIED_OUT, Kind.ASKED_AGAIN):  # instead of why a person was asked
            later, chain = _in_place_of(request)
            why = why_not(request.not_carried_out)
            why = f"{why[:1].upper()}{why[1:]}{chain}." if why else ""
            facts |= {"granted_minor": request.granted_minor}
            by = f"Approved by {_plain(str(request.decided_by))}"
            lines = [f"{by}: {request.granted}" if request.granted else f"{by}.", why]
            if kind == Kind.ASKED_AGAIN and later:
                lines += [_mask(notification, _why_asked(later)), _deadline(later)]
                url = url_of("approval", later.pk)
        happened = happened.format(_plain(str(whose or "nobody")))
        facts |= {"request": request.pk, "expires_at": request.expires_at.isoformat()}
        facts |= {"amount_minor": request.amount_minor, "currency": request.currency}
        facts |= {"rule": request.review["deciding"].get("rule"), "why": why}
    facts |= {"asked": what, "url": url}
    headline = f"{happened}: {what}" if what else happened
    return Note(kind, headline, [line for line in lines if line], url, facts)


def _why_asked(request: Escalation) -> str:
    return request.review["deciding"].get("sentence") or ""


def _in_place_of(approval: Escalation) -> tuple[Escalation | None, str]:
    """Return the newest request after an approval, and the chain as a sentence's end."""
    known = attention_of(approval).values("later", "earlier")
    one = known.first() or {"later": None, "earlier": None}
    if one["later"]:
        later = Escalation.objects.get(pk=one["later"])
        is_open = later.state == EscalationState.OPEN
        return later, f", as request {later.pk}{'' if is_open else ', which was not decided'}"
    return None, f" (it took the place of request {one['earlier']})" if one["earlier"] else ""


def _deadline(request: Escalation) -> str:
    if request.state != EscalationState.OPEN:
        return f"It was not decided by {moment(request.expires_at)}."
    if request.frozen_at is not None:
        return "A kill switch is on, and the deadline is paused."
    return f"Deadline: {moment(request.expires_at)}"


def _why_attention(notification: Notification, run: Run) -> str:
    """Return why a run needs attention, by its event."""
    if notification.detail == "failed":
        return end_sentence(run.stop_reason)
    request = notification.escalation
    if notification.detail == UNKNOWN and request and request.state == EscalationState.OPEN:
        return "Nobody can tell whether a call took effect: look it up, and answer the request."
    return _ATTENTION.get(notification.detail, "")


def _invitation_note(notification: Notification, facts: Json) -> Note:
    made = Invitation.objects.get(pk=notification.about.partition(":")[2])
    headline = f"You are invited to {_plain(notification.workspace.name)}"
    lines = [f"Your role: {made.role}.", f"This link works once, until {moment(made.expires_at)}:"]
    return Note(INVITATION, headline, lines, url_of("invitation", made.token), facts)


def _mask(notification: Notification, text: str) -> str:
    try:
        return _plain(redact_to_tell(notification.run, text)) if notification.run else ""
    except BadPolicy:
        return _plain(mask(text, KINDS))


# Mail readers and chats turn anything like an address into a link: a scheme, or a name with a dot
# in any form that a browser accepts.
_ADDRESS = re.compile(r"(\w)([.。．｡:])(?=//|[^\W\d])")


def _plain(text: str) -> str:
    """Return text as one line without links or characters that reorder the text around it."""
    hidden = set(invisible_characters(text))
    shown = "".join(
        " " if unicodedata.category(c)[0] in "CZ" else c for c in text if c not in hidden
    )
    line = _ADDRESS.sub(lambda match: f"{match[1]}[{match[2]}]", " ".join(shown.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def moment(at: datetime) -> str:
    return f"{at:%d %b %H:%M} UTC"


def url_of(name: str, *args: object) -> str:
    return f"{settings.OPSCONSOLE_PUBLIC_URL}{reverse(name, args=args)}"
