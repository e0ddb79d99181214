"""The inbox: what waits for a person, page by page, and what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.contrib.auth.models import User
from django.db.models import BooleanField, ExpressionWrapper, F, Q, QuerySet
from django.utils import timezone

from agents.core.kinds import TEXT
from agents.core.states import EscalationState
from agents.models import Escalation
from agents.models.belonging import belongs
from agents.sdk.changes import label_of
from agents.systems import SYSTEMS
from agents.tools import argument_in_words
from agents.web import access
from agents.web.approvals.wording import act, kind_of_request
from agents.web.newest import newest
from agents.web.times import read_time

INBOX = 100  # escalations on one page
DECIDED_PAGE = 50
SOON = timedelta(minutes=10)


@dataclass(frozen=True)
class InboxRow:
    """One line of the inbox, or of what was decided."""

    escalation: Escalation
    act: str
    asked: str  # how much, and where it is about no money, what
    granted: str
    why: str
    subject: str
    number: str  # the key of whom it is about, where it is not in their name
    group: str
    claimed_by: str


@dataclass(frozen=True)
class Inbox:
    """A page of what waits, and where the next one begins."""

    rows: Sequence[InboxRow]
    after: str  # where this page begins; "" for the first
    next: str  # "" for the last


def inbox(workspaces: Iterable[int], after: str = "", *, most: int = 0) -> Inbox:
    """Return a page of what waits in some workspaces, soonest to expire first.

    What is frozen comes last: its time stands still. A page has `most` rows, else INBOX.
    """
    most = most or INBOX
    waiting = open_in(workspaces)
    mark = _read_mark(after)
    found = waiting.filter(_beyond(*mark)) if mark else waiting
    found = found.annotate(is_frozen=ExpressionWrapper(_FROZEN, BooleanField()))
    soonest = found.select_related("run", "claimed_by").order_by("is_frozen", "expires_at", "pk")
    rows = _rows(soonest[: most + 1], at=timezone.now())
    is_cut = len(rows) > most
    following = _mark(rows[most - 1].escalation) if is_cut else ""
    return Inbox(rows[:most], after if mark else "", following)


def open_in(workspaces: Iterable[int]) -> QuerySet[Escalation]:
    """Return what waits for a person in some workspaces; none whose run is elsewhere."""
    waiting = Escalation.objects.filter(state=EscalationState.OPEN, workspace__in=list(workspaces))
    return waiting.filter(belongs(Escalation))


_FROZEN = Q(frozen_at__isnull=False)


def next_of(workspaces: Iterable[int], escalation: Escalation) -> Escalation | None:
    """Return what comes after a request in the inbox, else what stands first there."""
    others = open_in(workspaces).exclude(pk=escalation.pk)
    ordered = others.annotate(is_frozen=ExpressionWrapper(_FROZEN, BooleanField()))
    ordered = ordered.order_by("is_frozen", "expires_at", "pk")
    is_frozen = escalation.frozen_at is not None
    later = ordered.filter(_beyond(is_frozen, escalation.expires_at, escalation.pk)).first()
    return later or ordered.first()


def _mark(last: Escalation) -> str:
    """Return where the page after this request begins."""
    return f"{int(last.frozen_at is not None)}_{last.expires_at.isoformat()}_{last.pk}"


def _read_mark(text: str) -> tuple[bool, datetime, int] | None:
    """Return what `_mark` wrote; None for anything else: that is the first page."""
    frozen, at, pk = (*text.split("_"), "", "")[:3]
    when = read_time(at)
    if when is None or frozen not in ("0", "1") or not (pk.isascii() and pk.isdigit()):
        return None
    return (frozen == "1", when, int(pk)) if len(pk) < 19 else None


def _beyond(frozen: bool, at: datetime, pk: int) -> Q:
    """Return what comes after a request, in the order of the inbox."""
    later = Q(expires_at__gt=at) | Q(expires_at=at, pk__gt=pk)
    return _FROZEN & later if frozen else _FROZEN | (~_FROZEN & later)


OUTCOMES = (EscalationState.APPROVED, EscalationState.ADJUSTED, EscalationState.REJECTED)


def decided(user: User, before: str, outcome: str = "") -> tuple[list[InboxRow], str]:
    """Return a page of what was decided, newest first, and where the next one begins.

    `outcome` is one of OUTCOMES; anything else leaves out nothing.
    """
    found = Escalation.objects.filter(decided_at__isnull=False, run__workspace=F("workspace"))
    if outcome in OUTCOMES:
        found = found.filter(state=outcome)
    at, _, pk = before.partition("_")
    when = read_time(at)
    if when and pk.isascii() and pk.isdigit() and len(pk) < 19:
        found = found.filter(Q(decided_at__lt=when) | Q(decided_at=when, pk__lt=int(pk)))
    found = newest(found, access.workspaces_of(user), "decided_at", DECIDED_PAGE + 1)
    rows = _rows(found.select_related("run", "decided_by", "claimed_by"), at=timezone.now())
    if len(rows) <= DECIDED_PAGE:
        return rows, ""
    last = rows[DECIDED_PAGE - 1].escalation
    mark = f"{last.decided_at.isoformat()}_{last.pk}" if last.decided_at else ""
    return rows[:DECIDED_PAGE], mark


def _rows(found: Iterable[Escalation], *, at: datetime) -> list[InboxRow]:
    held = list(found)
    names = subject_names(held)
    return [
        InboxRow(
            escalation=e,
            act=act(e, names.get(e.pk, "")),
            asked=_asked(e),
            granted=_granted(e),
            why=e.review["deciding"]["sentence"],
            subject=names.get(e.pk, "") or e.run.subject_label or "Nobody",
            number=f"#{e.subject_key}" if names.get(e.pk) else "",
            group=_group(e, at=at),
            claimed_by=claimant(e, at=at),
        )
        for e in held
    ]


def subject_names(held: Iterable[Escalation]) -> dict[int, str]:
    """Return what people call the subjects of requests now, where their desk tells it."""
    found: dict[int, str] = {}
    for desk, of_desk in groupby(sorted(held, key=_desk), key=_desk):
        requests = list(of_desk)
        keys = {(one.run.book_id, one.subject_key) for one in requests}
        names = SYSTEMS[desk].names(keys) if desk in SYSTEMS else {}
        found |= {one.pk: names.get((one.run.book_id, one.subject_key), "") for one in requests}
    return found


def _desk(escalation: Escalation) -> str:
    return escalation.run.desk


def _asked(escalation: Escalation) -> str:
    kind, amount = kind_of_request(escalation), escalation.amount_minor
    is_paid = amount is not None and kind.runs_tool and kind.change != TEXT
    return escalation.asked if is_paid else kind.tag


def _granted(escalation: Escalation) -> str:
    """Say what a person granted: an amount, or what they changed."""
    is_other = escalation.granted_minor != escalation.amount_minor
    if escalation.granted and (is_other or not escalation.patch):
        return escalation.granted
    if escalation.state == EscalationState.REJECTED:
        return "nothing" if escalation.amount_minor is not None else ""
    tool = str(escalation.action.get("name", ""))
    changed = (escalation.patch or {}).items()
    return ", ".join(f"{label_of(n)}: {argument_in_words(tool, n, v)}" for n, v in changed)


def _group(escalation: Escalation, *, at: datetime) -> str:
    if escalation.frozen_at:
        return "Paused by a kill switch"
    return "Expires within 10 min" if escalation.expires_at - at < SOON else "Later"


def claimant(escalation: Escalation, *, at: datetime) -> str:
    """Return who keeps an escalation now; "" where nobody does."""
    until, who = escalation.claimed_until, escalation.claimed_by
    return who.get_username() if who and until and until > at else ""
