"""The overview's counts of requests and calls, by day, desk and currency.

Currencies are never added up. Days are in the viewer's zone; sums read the last days by index.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    DateField,
    DateTimeField,
    Q,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce, Concat
from django.utils import timezone

from agents.core.days import day_begun_at, utc_midnight
from agents.core.states import EffectState, EscalationState, RunState
from agents.engine.upkeep.case_days import (
    ASKED,
    AUTOMATIC,
    IS_AUTOMATIC,
    WITHHELD,
    calls_between,
    runs_ended_since,
)
from agents.engine.upkeep.day_sums import DAY
from agents.models import CaseDay, Effect, Escalation
from agents.models.belonging import belongs
from agents.tools import TOOLS, letter_tools
from agents.web.approvals.selection import SOONEST, snoozed_by
from agents.web.times import day_begun

DAYS = 14  # of the charts


@dataclass(frozen=True)
class Requests:
    """The requests of one day in one state; no day for open ones."""

    day: date | None
    state: str
    currency: str  # "": without an amount
    count: int
    asked_minor: int
    withheld_minor: int  # of that, what people rejected or deducted
    soonest: datetime | None = None  # when the first open one expires


@dataclass(frozen=True)
class DayOfCalls:
    """The calls of one desk carried out on one day, with a person's approval or without."""

    day: date | None
    is_automatic: bool
    workspace: int
    desk: str
    currency: str  # "": without money
    count: int
    moved_minor: int
    exposed_minor: int  # today (UTC) and without a person, also what may have been moved


@dataclass(frozen=True)
class CountedDays:
    """The stored counts of past days, and the beginning of the next day."""

    requests: Sequence[Requests]
    calls: Sequence[DayOfCalls]
    until: datetime | None  # None: no day is counted


def read_counted_days(workspaces: Sequence[int], *, since: datetime, at: datetime) -> CountedDays:
    """Read the counted days since then, which are UTC days, in one query.

    Leave out those that reach into the viewer's today, which is counted afresh.
    """
    today = utc_midnight(day_begun(at))
    days = CaseDay.objects.filter(day__gte=since.date(), day__lt=today.date())
    ours = days.filter(Q(workspace__in=workspaces) | Q(outcome="")).order_by()
    sums = ours.values_list("day", "outcome", "currency")
    requests, calls, newest = list[Requests](), list[DayOfCalls](), None
    for day, outcome, currency, count, minor in sums.annotate(n=Sum("count"), m=Sum("minor")):
        newest = max(newest or day, day)
        of, _, what = outcome.partition(".")
        if of == "request":
            requests.append(Requests(day, what, currency, count, 0, minor))
        elif of == "call":
            is_automatic = outcome == AUTOMATIC
            calls.append(DayOfCalls(day, is_automatic, 0, "", currency, count, minor, 0))
    return CountedDays(requests, calls, newest and day_begun_at(newest) + DAY)


SNOOZED = "snoozed"  # of open requests that the reader has snoozed
ENDED = "ended."  # before what came of runs that were done today


def count_requests(
    workspaces: Sequence[int], *, reader: int, since: datetime, at: datetime
) -> list[Requests]:
    """Count the requests decided or expired since then, and the open ones, in one query.

    What the reader has snoozed has the state SNOOZED. With them come the runs that were done today,
    whose states begin with ENDED.
    """
    ours = Escalation.objects.filter(workspace__in=workspaces).order_by()
    parts = (
        ours.filter(decided_at__gte=since).annotate(day=_day("decided_at", since)),
        ours.filter(state=EscalationState.EXPIRED, expires_at__gte=since).annotate(
            day=_day("expires_at", since)
        ),
        ours.filter(belongs(Escalation), state=EscalationState.OPEN).annotate(
            day=Cast(Value(None), DateField())
        ),
    )
    # Not the plain column: SQLite would group by its index and read every request.
    came_to = Coalesce("state", Value(""))
    is_snoozed = When(pk__in=snoozed_by(reader, at), then=Value(SNOOZED))
    no_time = Cast(Value(None), DateTimeField())
    nothing = Value(0, BigIntegerField())  # nothing is withheld of open requests
    of_ended, of_open = (
        (came_to, WITHHELD, no_time),
        (Case(is_snoozed, default=came_to), nothing, SOONEST),
    )
    sums = [
        part.values_list("day", state, "currency").annotate(
            n=Count("pk"), a=ASKED, w=withheld, s=soonest
        )
        for part, (state, withheld, soonest) in zip(
            parts, (of_ended, of_ended, of_open), strict=True
        )
    ]
    today = day_begun(at)
    done = runs_ended_since(today).filter(workspace__in=workspaces, state=RunState.DONE)
    ended = Concat(Value(ENDED), KT("outcome__came_of"), output_field=TextField())
    runs = (
        done.order_by()
        .values_list(Value(today.date(), DateField()), ended, Value(""))
        .annotate(n=Count("pk"), a=nothing, w=nothing, s=no_time)
    )
    return [Requests(*row) for row in sums[0].union(*sums[1:], runs, all=True)]


def _day(column: str, since: datetime) -> Case:
    """Return the day of a time; `since` is the beginning of the first of DAYS.

    By comparisons: on SQLite a date function is Python, called for each row.
    """
    now = timezone.now()
    midnight = day_begun(since)
    begins = [midnight + timedelta(days=number) for number in range(DAYS + 1)]
    begins = [begin for begin in reversed(begins) if begin <= now]
    days = [When(**{f"{column}__gte": day}, then=Value(day.date(), DateField())) for day in begins]
    return Case(*days, default=Cast(Value(None), DateField()))


def count_calls(
    workspaces: Sequence[int], *, named: Collection[str], since: datetime, today: datetime
) -> list[DayOfCalls]:
    """Count the writes since then, except letters, in one query.

    `named` are the tools in the policies, including those of desks not installed here.
    """
    letters = letter_tools()
    # Reads have no effect row; with fewer tools SQLite chooses their index.
    moving = {*TOOLS, *named} - {name for name, tool in TOOLS.items() if not tool.writes} - letters
    ours = Effect.objects.in_workspaces(workspaces)
    parts = (
        # By the index of tool and time, for each tool that moves something.
        calls_between(since, None, moving).in_workspaces(workspaces),
        ours.filter(intended_at__gte=utc_midnight(today)).exclude(tool__in=letters).unsettled(),
    )
    is_done = Q(state=EffectState.DONE)
    is_exposed = Q(escalation=None, intended_at__gte=utc_midnight(today))
    sums = [
        part.annotate(day=_day("settled_at", since), is_automatic=IS_AUTOMATIC)
        .values_list("day", "is_automatic", "run__workspace", "run__desk", "currency")
        .annotate(
            n=Count("pk", filter=is_done),
            moved=Coalesce(Sum("amount_minor", filter=is_done), 0),
            exposed=Coalesce(Sum("amount_minor", filter=is_exposed), 0),
        )
        .order_by()
        for part in parts
    ]
    return [DayOfCalls(*row) for row in sums[0].union(sums[1], all=True)]
