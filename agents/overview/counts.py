"""The overview's counts of requests and calls, by day, desk and currency.

Currencies are never added up. Days are in the viewer's zone; sums read the last days by index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    DateField,
    DateTimeField,
    Q,
    QuerySet,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce, Concat
from django.utils import timezone

from agents.core.money import day_begun_at, format_money, utc_midnight
from agents.core.states import EffectState, EscalationState, RunState
from agents.db.compiled import CompiledSelect, Param, Params, spread
from agents.engine.upkeep.daily import (
    ASKED,
    AUTOMATIC,
    DAY,
    IS_AUTOMATIC,
    WITHHELD,
    calls_between,
    runs_ended_since,
)
from agents.models import CaseDay, Effect, Escalation
from agents.models.belonging import belongs
from agents.requests.queue import SOONEST, snoozed_by
from agents.sdk.desk import DESKS
from agents.shell.formats import day_begun
from agents.tools import letter_tools

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
class _CountedDays:
    """The stored counts of past days, and the beginning of the next day."""

    requests: Sequence[Requests]
    calls: Sequence[DayOfCalls]
    until: datetime | None  # None: no day is counted


def read_counted_days(workspaces: Sequence[int], *, since: datetime, at: datetime) -> _CountedDays:
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
    return _CountedDays(requests, calls, newest and day_begun_at(newest) + DAY)


SNOOZED = "snoozed"  # of open requests that the reader has snoozed
ENDED = "ended."  # before what came of runs that were done today


def count_requests(
    workspaces: Sequence[int], *, reader: int, since: datetime, at: datetime
) -> list[Requests]:
    """Count the requests decided or expired since then, and the open ones, in one query.

    What the reader has snoozed has the state SNOOZED. With them come the runs that were done today,
    whose states begin with ENDED.
    """
    begins, today = _begins(since), day_begun(at)
    rows = _requests(len(workspaces), len(begins)).tuples(
        reader=reader,
        since=since,
        at=at,
        today=today,
        date=today.date(),
        **{**spread("homes", workspaces), **_spread_days(begins)},
    )
    return [Requests(*row) for row in rows]


@cache
def _requests(homes: int, days: int) -> CompiledSelect[Any]:
    return CompiledSelect(lambda: _requests_query(Params("homes", homes), days))


def _requests_query(workspaces: Params, days: int) -> QuerySet[Any]:
    ours = Escalation.objects.filter(workspace__in=workspaces).order_by()
    since = Param("since")
    parts = (
        ours.filter(decided_at__gte=since).annotate(day=_day("decided_at", days)),
        ours.filter(state=EscalationState.EXPIRED, expires_at__gte=since).annotate(
            day=_day("expires_at", days)
        ),
        ours.filter(belongs(Escalation), state=EscalationState.OPEN).annotate(
            day=Cast(Value(None), DateField())
        ),
    )
    # Not the plain column: SQLite would group by its index and read every request.
    came_to = Coalesce("state", Value(""))
    snoozed = snoozed_by(Param("reader"), Param("at"))
    is_snoozed = When(pk__in=snoozed, then=Value(SNOOZED))
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
    today: Any = Param("today", DateTimeField())
    done = runs_ended_since(today).filter(workspace__in=workspaces, state=RunState.DONE)
    ended = Concat(Value(ENDED), KT("outcome__came_of"), output_field=TextField())
    runs = (
        done.order_by()
        .values_list(Param("date", DateField()), ended, Value(""))
        .annotate(n=Count("pk"), a=nothing, w=nothing, s=no_time)
    )
    return sums[0].union(*sums[1:], runs, all=True)


def _begins(since: datetime) -> list[datetime]:
    """Return when the days until now began, the newest first; `since` is in the first of DAYS."""
    now, midnight = timezone.now(), day_begun(since)
    begins = [midnight + timedelta(days=number) for number in range(DAYS + 1)]
    return [begin for begin in reversed(begins) if begin <= now]


def _spread_days(begins: Sequence[datetime]) -> dict[str, object]:
    return spread("begin", begins) | spread("day", [begin.date() for begin in begins])


def _day(column: str, days: int) -> Case:
    """Return the day of a time among so many.

    By comparisons: on SQLite a date function is Python, called for each row.
    """
    whens = [
        When(**{f"{column}__gte": Param(f"begin.{n}")}, then=Param(f"day.{n}", DateField()))
        for n in range(days)
    ]
    return Case(*whens, default=Cast(Value(None), DateField()))


def count_calls(
    workspaces: Sequence[int], *, named: Collection[str], since: datetime, today: datetime
) -> list[DayOfCalls]:
    """Count the writes since then, except letters, in one query.

    `named` are the tools in the policies, including those of desks not installed here.
    """
    letters = sorted(letter_tools())
    # Reads have no effect row; with fewer tools SQLite chooses their index.
    tools = {name: tool for desk in DESKS.values() for name, tool in desk.all_tools.items()}
    reads = {name for name, tool in tools.items() if not tool.writes}
    moving = sorted({*tools, *named} - reads - {*letters})
    begins = _begins(since)
    asked = _calls(len(workspaces), len(begins), len(moving), len(letters))
    rows = asked.tuples(
        since=since,
        midnight=utc_midnight(today),
        **{**spread("homes", workspaces), **_spread_days(begins)},
        **{**spread("moving", moving), **spread("letters", letters)},
    )
    return [DayOfCalls(*row) for row in rows]


@cache
def _calls(homes: int, days: int, moving: int, letters: int) -> CompiledSelect[Any]:
    return CompiledSelect(
        lambda: _calls_query(
            Params("homes", homes), days, Params("moving", moving), Params("letters", letters)
        )
    )


def _calls_query(workspaces: Params, days: int, moving: Any, letters: Params) -> QuerySet[Any]:
    since: Any = Param("since")
    is_of_today = Q(intended_at__gte=Param("midnight"))
    ours = Effect.objects.in_workspaces(workspaces)
    parts = (
        # By the index of tool and time, for each tool that moves something.
        calls_between(since, None, moving).in_workspaces(workspaces),
        ours.filter(is_of_today).exclude(tool__in=letters).unsettled(),
    )
    is_done = Q(state=EffectState.DONE)
    is_exposed = Q(escalation=None) & is_of_today
    sums = [
        part.annotate(day=_day("settled_at", days), is_automatic=IS_AUTOMATIC)
        .values_list("day", "is_automatic", "run__workspace", "run__desk", "currency")
        .annotate(
            n=Count("pk", filter=is_done),
            moved=Coalesce(Sum("amount_minor", filter=is_done), 0),
            exposed=Coalesce(Sum("amount_minor", filter=is_exposed), 0),
        )
        .order_by()
        for part in parts
    ]
    return sums[0].union(sums[1], all=True)


# A chart with a bar for each day, stacked by outcome; a table below has the figures.


@dataclass(frozen=True)
class Layer:
    """One colour of the stack, with its icon and its word."""

    role: str
    word: str


@dataclass(frozen=True)
class _Segment:
    """A part of a bar: its place in percent of the chart."""

    role: str
    told: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class _Day:
    """One bar, from bottom to top, and its figures in words."""

    date: date
    segments: Sequence[_Segment]
    counts: Sequence[int]
    values: Sequence[str]


@dataclass(frozen=True)
class Chart:
    """Days in order. `highest` is the full height, "" if nothing was counted.

    `currency` is that of an amount, "" for counts.
    """

    layers: Sequence[Layer]
    days: Sequence[_Day]
    highest: str
    today: Sequence[tuple[Layer, str]]  # the last day's figures
    currency: str = ""


def chart(
    layers: Sequence[Layer],
    dates: Sequence[date],
    counted: Iterable[Sequence[Any]],
    *,
    currency: str = "",
) -> Chart:
    """Chart counts, given as day, word and number; those of one day and word are added up.

    With a currency the numbers are minor units. Other days and words are left out.
    """
    sums: Counter[tuple[date | None, str]] = Counter()
    for day, word, count in counted:
        sums[day, word] += count
    rows = [[sums[day, layer.word] for layer in layers] for day in dates]
    highest = max([sum(row) for row in rows] + [1])

    def in_words(value: int) -> str:
        return format_money(value, currency) if currency else f"{value:,}"

    written = [[in_words(value) for value in row] for row in rows]
    days = [
        _Day(day, _segments(n, len(dates), row, highest, layers, texts), row, texts)
        for n, (day, row, texts) in enumerate(zip(dates, rows, written, strict=True))
    ]
    top = in_words(highest) if any(map(any, rows)) else ""
    return Chart(layers, days, top, list(zip(layers, written[-1], strict=True)), currency)


def _segments(
    n: int,
    of: int,
    row: Sequence[int],
    highest: int,
    layers: Sequence[Layer],
    texts: Sequence[str],
) -> list[_Segment]:
    """Return one day's bar in percent of the chart's width and height, from its top left."""
    width, found, y = 100 / of, [], 100.0
    for layer, value, text in zip(layers, row, texts, strict=True):
        height = 100 * value / highest
        y -= height
        if value:
            place = (n * width + width * 0.15, y, width * 0.7, height)
            told = f"{text} {layer.word.lower()}"
            found.append(_Segment(layer.role, told, *(round(part, 2) for part in place)))
    return found
