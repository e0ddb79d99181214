"""Recipients and times of notifications: pure functions of rows and the time.

A notification is one event of a request, a run or a kill switch. Each recipient gets it at most
once, by one channel; no message can be used to decide.
"""

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from agents.core.requests import Json

DAY = 24 * 60  # minutes
_FIRST_WAIT, LONGEST_WAIT = 30.0, 3600.0  # seconds between two tries
GIVEN_UP = timedelta(hours=24)  # after the first try
SOON = timedelta(minutes=10)  # the least warning before the end
ADMIN = "admin"
READERS = ("reviewer", "auditor")  # hear of a policy that no second admin published
# Why a run that did not fail needs attention; no event records the second.
UNKNOWN, UNTOLD = "unknown", "untold"


class Kind(StrEnum):
    OPENED = "opened"
    ASSIGNED = "assigned"
    SECOND = "second"
    HALF_TIME = "half_time"
    EXPIRING = "expiring"
    EXPIRED = "expired"
    ASKED_AGAIN = "asked_again"
    NOT_CARRIED_OUT = "not_carried_out"
    ATTENTION = "attention"
    KILL_SWITCH = "kill_switch"
    DRAFT = "draft"
    ALONE = "alone"


class Mode(StrEnum):
    NOW = "now"
    DIGEST = "digest"
    OFF = "off"


DEFAULTS: Mapping[Kind, Mode] = dict.fromkeys(Kind, Mode.NOW) | {Kind.OPENED: Mode.OFF}
# Sent only while the request is open and the recipient is still asked.
WHILE_OPEN = (Kind.OPENED, Kind.ASSIGNED, Kind.SECOND, Kind.HALF_TIME, Kind.EXPIRING)

# By the event written in the same transaction.
OF_EVENTS: Mapping[str, Kind] = {
    "escalation.opened": Kind.OPENED,
    "escalation.assigned": Kind.ASSIGNED,
    "approval.given": Kind.SECOND,
    "escalation.expired": Kind.EXPIRED,
    "escalation.not_carried_out": Kind.NOT_CARRIED_OUT,
    "run.failed": Kind.ATTENTION,
    "effect.unknown": Kind.ATTENTION,
    "kill_switch.on": Kind.KILL_SWITCH,
    "kill_switch.trial": Kind.KILL_SWITCH,
    "kill_switch.off": Kind.KILL_SWITCH,
}


@dataclass(frozen=True)
class Hours:
    """A person's quiet hours and time of digest, in minutes of their local day."""

    quiet_from: int | None = None
    quiet_until: int | None = None
    digest_at: int = 8 * 60
    zone: str = "UTC"


@dataclass(frozen=True)
class Person:
    """A member of the workspace, as far as it matters for notifications."""

    user: int
    role: str
    name: str = ""
    may_decide: bool = False  # the request, regardless of their own limits
    may_grant: bool = False  # the full request
    teams: frozenset[int] = frozenset()
    modes: Mapping[str, str] = field(default_factory=dict)  # other than DEFAULTS
    hears_all: bool = False  # wants to hear of others' decisions too
    hours: Hours = Hours()
    channel: str = ""


@dataclass(frozen=True)
class Occurrence:
    """An occurrence, and the people involved."""

    kind: Kind
    launcher: int | None = None
    decided_by: int | None = None
    assigned_to: int | None = None
    assigned_team: int | None = None
    done_by: int | None = None  # the actor, who is not notified
    snoozed_by: frozenset[int] = frozenset()  # people who want to see it later


def recipients(case: Occurrence, people: Iterable[Person]) -> list[Person]:
    """Return the people to notify: those who can act, are concerned, or hear of everything."""
    known = list(people)
    able = {person.user for person in _able(case, known)}
    spared = {case.done_by} if case.kind in (Kind.ASSIGNED, Kind.SECOND, Kind.DRAFT) else set()
    spared |= case.snoozed_by if case.kind is Kind.HALF_TIME else set()
    if case.kind is Kind.OPENED:  # the assigned people are told
        whose = _assignees(case, known)
        spared |= {p.user for p in whose if mode_of(Kind.ASSIGNED, p.modes) is not Mode.OFF}
    hearers = [p for p in known if p.user not in spared and (p.user in able or p.hears_all)]
    return [p for p in hearers if mode_of(case.kind, p.modes) is not Mode.OFF]


def _able(case: Occurrence, people: Collection[Person]) -> list[Person]:
    if case.kind is Kind.ALONE:
        return [p for p in people if p.role in READERS]
    if case.kind in (Kind.KILL_SWITCH, Kind.DRAFT):
        return [p for p in people if p.role == ADMIN]
    if case.kind is Kind.ASKED_AGAIN:
        return [p for p in people if p.user == case.decided_by]
    concerned = {case.launcher, case.decided_by}
    if case.kind in (Kind.NOT_CARRIED_OUT, Kind.ATTENTION):
        concerned |= {p.user for p in people if p.may_decide and case.kind is Kind.ATTENTION}
        return [p for p in people if p.role == ADMIN or p.user in concerned]
    assigned = _assignees(case, people)
    if case.kind is Kind.ASSIGNED:
        return assigned
    # If none of the assigned people is left, everybody is told.
    decide = assigned or [p for p in people if p.may_decide]
    # Above everyone's limit it can still be lowered or rejected.
    decide = [p for p in decide if p.may_grant] or decide
    if case.kind is Kind.EXPIRED:
        decide += [p for p in people if p.user == case.launcher and p not in decide]
    return decide


def _assignees(case: Occurrence, people: Collection[Person]) -> list[Person]:
    decide = [p for p in people if p.may_decide]
    return [p for p in decide if p.user == case.assigned_to or case.assigned_team in p.teams]


def mode_of(kind: Kind, modes: Mapping[str, str]) -> Mode:
    """Return a person's mode for a kind of notification."""
    return Mode(modes.get(kind, DEFAULTS[kind]))


def send_at(mode: Mode, hours: Hours, at: datetime) -> datetime:
    """Return when to notify a person of an event now: at once, after quiet hours or in a digest."""
    local = at.astimezone(ZoneInfo(hours.zone))
    minute = local.hour * 60 + local.minute
    if mode is Mode.DIGEST:
        return _next(local, hours.digest_at)
    begin, end = hours.quiet_from, hours.quiet_until
    if begin is None or end is None or begin == end:
        return at
    is_quiet = begin <= minute < end if begin < end else minute >= begin or minute < end
    return _next(local, end) if is_quiet else at


def _next(local: datetime, minute: int) -> datetime:
    """Return the next time at which the local clock shows this minute of the day."""
    at = time(minute // 60, minute % 60)
    day = local.date()
    if (local.time().replace(tzinfo=None)) >= at:
        day += timedelta(days=1)
    # In the hour that a clock shows twice, the next time is in the same pass.
    return datetime.combine(day, at, local.tzinfo).replace(fold=local.fold).astimezone(UTC)


def half_time(created_at: datetime, expires_at: datetime) -> datetime:
    """Return when half of a request's time is over."""
    return created_at + (expires_at - created_at) / 2


def last_call(created_at: datetime, expires_at: datetime) -> datetime:
    """Return when a request is about to expire: a tenth of its time before, SOON to an hour."""
    before = min(max((expires_at - created_at) / 10, SOON), timedelta(hours=1))
    return max(expires_at - before, half_time(created_at, expires_at))


def wait_after(tries: int) -> timedelta:
    """Return the time to the next try: doubled up to LONGEST_WAIT, plus a random tenth."""
    seconds = min(_FIRST_WAIT * 2 ** min(tries - 1, 16), LONGEST_WAIT)
    return timedelta(seconds=seconds * random.uniform(0.9, 1.1))  # noqa: S311 - no secret


def about(facts: Json, *, run: object, event: str) -> str:
    """Return the key of an event's object, by which its messages are distinguished."""
    if facts.get("escalation"):
        return f"request:{facts['escalation']}"
    return f"run:{run}" if run else f"event:{event}"
