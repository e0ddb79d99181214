"""The overview's counts of requests and calls by day, and the figures of a period.

Currencies are never added up. Days are in the viewer's zone; sums read the last days by index.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    Count,
    DateField,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from agents.core.money import day_begun_at, format_money, utc_midnight
from agents.core.requests import EffectState, EscalationState
from agents.db.compiled import CompiledSelect, Param, Params, spread
from agents.engine.upkeep.daily import AUTOMATIC, DAY, IS_AUTOMATIC, WITHHELD, calls_between
from agents.models import CaseDay, Effect, Escalation
from agents.sdk.desk import offered
from agents.shell.formats import day_begun
from agents.tools import letter_tools

DAYS = 28  # counted: the longest period of the figures, and as long before it


@dataclass(frozen=True)
class Requests:
    """The requests of one day that ended in one state."""

    day: date | None
    state: str
    currency: str  # "": without an amount
    count: int
    withheld_minor: int  # what people rejected or deducted


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


def read_counted_days(
    workspaces: Sequence[int], *, since: datetime, at: datetime
) -> tuple[list[Requests], list[DayOfCalls], datetime | None]:
    """Read the counted days since then, which are UTC days, and when the next begins, in one query.

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
            requests.append(Requests(day, what, currency, count, minor))
        elif of == "call":
            is_automatic = outcome == AUTOMATIC
            calls.append(DayOfCalls(day, is_automatic, 0, "", currency, count, minor, 0))
    return requests, calls, newest and day_begun_at(newest) + DAY


def _begins(since: datetime) -> list[datetime]:
    """Return when the days until now began, the newest first; `since` is in the first of DAYS."""
    now, midnight = timezone.now(), day_begun(since)
    begins = [midnight + timedelta(days=number) for number in range(DAYS + 1)]
    return [begin for begin in reversed(begins) if begin <= now]


def _day(column: str, days: int) -> Case:
    """Return the day of a time among so many.

    By comparisons: on SQLite a date function is Python, called for each row.
    """
    whens = [
        When(**{f"{column}__gte": Param(f"begin.{n}")}, then=Param(f"day.{n}", DateField()))
        for n in range(days)
    ]
    return Case(*whens, default=Cast(Value(None), DateField()))


def count_since(
    workspaces: Sequence[int], *, named: Collection[str], since: datetime, today: datetime
) -> tuple[list[Requests], list[DayOfCalls]]:
    """Count in one query the requests that ended since then, and the writes except letters.

    `named` are the tools in the policies, including those of desks not installed here.
    """
    letters = sorted(letter_tools())
    # Reads have no effect row; with fewer tools SQLite chooses their index.
    tools = {name: tool for desk in offered().values() for name, tool in desk.all_tools.items()}
    reads = {name for name, tool in tools.items() if not tool.writes}
    moving = sorted({*tools, *named} - reads - {*letters})
    begins = _begins(since)
    compiled = _counted(len(workspaces), len(begins), len(moving), len(letters))
    rows = compiled.tuples(
        since=since,
        midnight=utc_midnight(today),
        **{**spread("homes", workspaces), **spread("begin", begins)},
        **spread("day", [begin.date() for begin in begins]),
        **{**spread("moving", moving), **spread("letters", letters)},
    )
    requests, calls = list[Requests](), list[DayOfCalls]()
    for day, what, home, desk, currency, count, minor, exposed in rows:
        if home is None:
            requests.append(Requests(day, what, currency, count, minor))
        else:
            is_automatic = what == AUTOMATIC
            calls.append(DayOfCalls(day, is_automatic, home, desk, currency, count, minor, exposed))
    return requests, calls


@cache
def _counted(homes: int, days: int, moving: int, letters: int) -> CompiledSelect[Any]:
    given = (Params("homes", homes), days, Params("moving", moving), Params("letters", letters))

    def build() -> QuerySet[Any]:
        first, *rest = (*_requests(*given[:2]), *_calls(*given))
        return first.union(*rest, all=True)

    return CompiledSelect(build)


def _requests(workspaces: Params, days: int) -> list[QuerySet[Any]]:
    ours, since = Escalation.objects.filter(workspace__in=workspaces).order_by(), Param("since")
    expired = ours.filter(state=EscalationState.EXPIRED, expires_at__gte=since)
    parts = (
        ours.filter(decided_at__gte=since).annotate(day=_day("decided_at", days)),
        expired.annotate(day=_day("expires_at", days)),
    )
    # Not the plain column: SQLite would group by its index and read every request.
    came_to, no_home = Coalesce("state", Value("")), Cast(Value(None), BigIntegerField())
    no_desk, nothing = Value("", CharField()), Value(0, BigIntegerField())
    return [
        part.values_list("day", came_to, no_home, no_desk, "currency").annotate(
            n=Count("pk"), w=WITHHELD, e=nothing
        )
        for part in parts
    ]


def _calls(workspaces: Params, days: int, moving: Any, letters: Params) -> list[QuerySet[Any]]:
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
    what = Case(When(IS_AUTOMATIC, then=Value(AUTOMATIC)), default=Value("", CharField()))
    return [
        part.annotate(day=_day("settled_at", days), what=what)
        .values_list("day", "what", "run__workspace", "run__desk", "currency")
        .annotate(
            n=Count("pk", filter=is_done),
            moved=Coalesce(Sum("amount_minor", filter=is_done), 0),
            exposed=Coalesce(Sum("amount_minor", filter=is_exposed), 0),
        )
        .order_by()
        for part in parts
    ]


# The figures of a period and its chart, in one unit: a currency, or "" for the number of calls.


@dataclass(frozen=True)
class Layer:
    """One figure of money or calls, and its part of each bar."""

    role: str
    label: str
    word: str


LAYERS = (
    Layer("approve", "Without a person", "automatic"),
    Layer("human", "After approval", "after approval"),
    Layer("block", "Kept back by people", "kept back"),
)


def period(
    requests: Sequence[Requests],
    calls: Sequence[DayOfCalls],
    dates: Sequence[date],
    *,
    days: int,
    unit: str | None = None,
) -> dict[str, Any]:
    """Compare the last `days` dates with as many before; without a unit, in the busiest one.

    A figure's line has points in 120 by 28; the parts of a bar are in percent of the chart. Money
    is in minor units and is never added up over currencies.
    """
    sums: Counter[tuple[str, date | None, str]] = Counter()
    for call in calls:
        word = LAYERS[0].word if call.is_automatic else LAYERS[1].word
        sums["", call.day, word] += call.count
        sums[call.currency, call.day, word] += call.moved_minor if call.currency else 0
    for one in requests:
        sums["", one.day, LAYERS[2].word] += (
            one.count if one.state == EscalationState.REJECTED else 0
        )
        sums[one.currency, one.day, LAYERS[2].word] += one.withheld_minor if one.currency else 0
    busy = Counter[str]()
    for call in calls:
        busy[call.currency] += call.count
    busy.update({code: 1 for (code, *_), minor in sums.items() if minor})
    units = [code for code, _ in busy.most_common() if code]
    chosen = unit if unit in (*units, "") else units[0] if units else ""
    rows = [[sums[chosen, day, layer.word] for layer in LAYERS] for day in dates]
    shown, before = rows[-days:], rows[-2 * days : -days]
    figures = [
        {
            "role": layer.role,
            "label": layer.label,
            "value": _in_words(sum(row[place] for row in shown), chosen),
            "change": compare(
                sum(r[place] for r in shown), sum(r[place] for r in before), f"{days} days"
            ),
            "points": points_of([row[place] for row in shown]),
        }
        for place, layer in enumerate(LAYERS)
    ]
    highest = max(map(sum, shown)) or 1
    bars = []
    for n, (day, row) in enumerate(zip(dates[-days:], shown, strict=True)):
        values = [_in_words(value, chosen) for value in row]
        told = (f"{value} {layer.word}" for value, layer in zip(values, LAYERS, strict=True))
        bars.append(
            {
                "date": day,
                "x": round(100 * n / days, 2),
                "inner": round((100 * n + 15) / days, 2),  # where its parts begin
                "parts": _parts(row, highest),  # role, top and height, from the bottom
                "values": values,
                "told": ", ".join(told),
            }
        )
    return {
        "unit": chosen,
        "units": units,  # that there are, the busiest first
        "figures": figures,
        "bars": bars,
        "width": round(100 / len(bars), 2),
        "inner": round(70 / len(bars), 2),  # the width of a bar's parts
        "has_any": any(bar["parts"] for bar in bars),
    }


def _in_words(value: int, unit: str) -> str:
    return format_money(value, unit) if unit else f"{value:,}"


def _parts(row: Sequence[int], highest: int) -> list[tuple[str, float, float]]:
    parts, top = list[tuple[str, float, float]](), 100.0
    for layer, value in zip(LAYERS, row, strict=True):
        height = 100 * value / highest
        top -= height
        if value:
            parts.append((layer.role, round(top, 2), round(height, 2)))
    return parts


def compare(now: float, before: float, whole: str) -> str:
    """Return how a figure compares with the one before: "4 % more than in the 7 days before"."""
    if not before:
        return f"nothing in the {whole} before"
    percent = round(100 * (now - before) / before)
    if not percent:
        return f"as in the {whole} before"
    return f"{abs(percent):,} % {'more' if percent > 0 else 'less'} than in the {whole} before"


def points_of(values: Sequence[float]) -> str:
    """Return the points of a line through some values, from 0 at the bottom."""
    highest, wide = max(values, default=0) or 1, max(1, len(values) - 1)
    return " ".join(
        f"{120 * n / wide:.1f},{25 - 22 * value / highest:.1f}" for n, value in enumerate(values)
    )
