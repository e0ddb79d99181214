"""The inbox: open requests page by page, and decided ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from django.contrib.auth.models import User
from django.db.models import BooleanField, Case, ExpressionWrapper, F, Q, QuerySet, When
from django.utils import timezone

from agents.core.request_kinds import TEXT
from agents.core.states import EscalationState
from agents.db.compiled import CompiledSelect, Param, Params, spread
from agents.models import Escalation
from agents.models.belonging import belongs
from agents.sdk.adjustments import label_of
from agents.shell import access
from agents.shell.formats import read_time
from agents.shell.pages import newest, older, whole_number
from agents.tools import argument_in_words
from agents.web.approvals.position import QueuePosition, line_of
from agents.web.approvals.provenance import mark_of
from agents.web.approvals.queue import ALL, MINE, VIEWS, WHOLE, QueueAddress
from agents.web.approvals.selection import Reviewer, in_view, open_in
from agents.web.approvals.wording import act, kind_of_request, told_apart_by

INBOX = 50  # requests on one page
BESIDE = 40  # beside an open card; at most so many of them before it:
BEFORE = 8
DECIDED_PAGE = 50


@dataclass(frozen=True)
class InboxRow:
    """One line of the inbox or of the decided requests."""

    escalation: Escalation
    act: str
    asked: str  # the amount or, without one, the action
    granted: str
    why: str
    risk: int  # 0 none to 100
    subject: str
    number: str  # the subject's key, if their name does not contain it
    about: str  # what tells requests about one subject apart, such as a payee; or ""
    mark: str  # what has to be compared with the request; or ""
    claimed_by: str
    assigned_to: str  # a person or a team


@dataclass(frozen=True)
class Inbox:
    """A part of the open requests: a page, or the list beside an open card."""

    rows: Sequence[InboxRow]
    count: int  # of all requests in the queue
    newest: int  # the key of the latest request
    arrived: int  # requests since the newest one that the page knows
    line: QueuePosition
    next: int | None  # the last request of this page; for a card, the next request


def inbox(who: Reviewer, queue: QueueAddress = WHOLE, after: str = "", *, since: str = "") -> Inbox:
    """Return the page of a queue that follows the request `after`."""
    line = line_of(queue, who, whole_number(after), views=VIEWS)
    keys = line.behind[:INBOX]
    return _inbox(line, keys, who, since, keys[-1] if len(line.behind) > INBOX else None)


def first_rows(who: Reviewer, most: int) -> list[InboxRow]:
    """Return the first requests for a person, in one query: theirs, then the soonest to expire.

    Snoozed ones are left out, and frozen ones come last.
    """
    homes = who.workspaces
    given = {"reader": who.user_id, "at": who.at, **spread("homes", homes)}
    return _rows(_first(len(homes), most).all(**given), at=who.at)


@cache
def _first(homes: int, most: int) -> CompiledSelect[Escalation]:
    reader: Any = Param("reader")
    at: Any = Param("at")
    who = Reviewer(reader, (), at)

    def build() -> QuerySet[Escalation]:
        is_frozen = ExpressionWrapper(Q(frozen_at__isnull=False), BooleanField())
        is_others = Case(When(in_view(MINE, who), then=False), default=True)
        order = (is_others, is_frozen, "expires_at", "pk")
        ours = open_in(Params("homes", homes)).filter(in_view(ALL, who))
        # First the keys, so that whole rows are read only of few.
        keys = ours.order_by(*order).values("pk")[:most]
        found = Escalation.objects.filter(pk__in=keys).select_related("run", *_HOLDERS)
        return found.order_by(*order)

    return CompiledSelect(build)


def expired_since(
    workspaces: Sequence[int] | Params, since: datetime | Param
) -> QuerySet[Escalation]:
    """Return the requests that nobody answered in time since then."""
    expired = Escalation.objects.filter(state=EscalationState.EXPIRED, expires_at__gte=since)
    return expired.filter(belongs(Escalation), workspace__in=workspaces)


def inbox_beside(
    who: Reviewer, queue: QueueAddress, escalation: Escalation, since: str = ""
) -> Inbox:
    """Return the lines around a request, even if it has left the queue."""
    line = line_of(queue, who, escalation.pk, escalation)
    keys = line.keys[max(0, line.at - BEFORE) : line.at + BESIDE]
    return _inbox(line, keys, who, since, line.following)


def _inbox(
    line: QueuePosition, keys: Sequence[int], who: Reviewer, since: str, following: int | None
) -> Inbox:
    known = whole_number(since)
    arrived = sum(key > known for key in line.keys) if known is not None else 0
    newest = max(line.keys, default=0)
    return Inbox(open_rows(keys, who), len(line.keys), newest, arrived, line, following)


def open_rows(keys: Sequence[int], who: Reviewer) -> list[InboxRow]:
    """Return the lines of some requests; only their rows, which are wide, are read."""
    found = _open(len(keys)).all(**spread("keys", keys))
    at = {key: number for number, key in enumerate(keys)}
    return _rows(sorted(found, key=lambda one: at[one.pk]), at=who.at)


@cache
def _open(count: int) -> CompiledSelect[Escalation]:
    listed = Escalation.objects.filter(pk__in=Params("keys", count), state=EscalationState.OPEN)
    return CompiledSelect(listed.select_related("run__launched_by", "run__agent", *_HOLDERS).all)


_HOLDERS = ("claimed_by", "assigned_to", "assigned_team")
OUTCOMES = (
    EscalationState.APPROVED,
    EscalationState.ADJUSTED,
    EscalationState.SENT_BACK,
    EscalationState.REJECTED,
)


def decided_page(
    user: User, before: str, outcome: str = "", *, by_me: bool = False
) -> tuple[list[InboxRow], str]:
    """Return a page of decided requests, newest first, and where the next one begins.

    `outcome` is one of OUTCOMES; anything else shows all.
    """
    found = Escalation.objects.filter(decided_at__isnull=False, run__workspace=F("workspace"))
    if outcome in OUTCOMES:
        found = found.filter(state=outcome)
    if by_me:
        found = found.filter(decided_by=user)
    at, _, mark = before.partition("_")
    when, pk = read_time(at), whole_number(mark)
    if when and pk is not None:
        found = older(found, "decided_at", when, pk)
    found = newest(found, access.workspaces_of(user), "decided_at", DECIDED_PAGE + 1)
    rows = _rows(found.select_related("run", "decided_by", *_HOLDERS), at=timezone.now())
    if len(rows) <= DECIDED_PAGE:
        return rows, ""
    last = rows[DECIDED_PAGE - 1].escalation
    mark = f"{last.decided_at.isoformat()}_{last.pk}" if last.decided_at else ""
    return rows[:DECIDED_PAGE], mark


def _rows(found: Iterable[Escalation], *, at: datetime) -> list[InboxRow]:
    held = list(found)
    return [
        InboxRow(
            escalation=e,
            act=act(e, _name(e)),
            asked=_request_text(e),
            granted=_grant_text(e),
            why=e.review["deciding"]["sentence"],
            risk=e.review["deciding"].get("risk") or 0,
            subject=_name(e) or e.run.subject_label or "Nobody",
            number=f"#{e.subject_key}" if _name(e) else "",
            about=told_apart_by(e),
            mark=mark_of(e),
            claimed_by=claimant(e, at=at),
            assigned_to=str(e.assigned_to or e.assigned_team or ""),
        )
        for e in held
    ]


def _name(escalation: Escalation) -> str:
    """Return the name of a request's subject where its label has a number beside it."""
    label, number = escalation.run.subject_label, f" #{escalation.subject_key}"
    return label.removesuffix(number) if label.endswith(number) else ""


def _request_text(escalation: Escalation) -> str:
    kind, amount = kind_of_request(escalation), escalation.amount_minor
    is_paid = amount is not None and kind.runs_tool and kind.change != TEXT
    return escalation.asked if is_paid else kind.tag


def _grant_text(escalation: Escalation) -> str:
    """Return what a person granted: an amount, or their changes."""
    is_other = escalation.granted_minor != escalation.amount_minor
    if escalation.granted and (is_other or not escalation.patch):
        return escalation.granted
    if escalation.state in (EscalationState.REJECTED, EscalationState.SENT_BACK):
        return "nothing" if escalation.amount_minor is not None else ""
    tool = str(escalation.action.get("name", ""))
    changed = (escalation.patch or {}).items()
    return ", ".join(f"{label_of(n)}: {argument_in_words(tool, n, v)}" for n, v in changed)


def claimant(escalation: Escalation, *, at: datetime) -> str:
    """Return the person who claims an escalation now; "" if nobody does."""
    until, who = escalation.claimed_until, escalation.claimed_by
    return who.get_username() if who and until and until > at else ""
