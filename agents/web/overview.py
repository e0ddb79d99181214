"""What the first page tells: what waits, how today went, where somebody is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from agents.core.states import EffectState, EscalationState, RunState
from agents.models import Effect, Endpoint, Escalation, Run, Step
from agents.web import access, reading

DAYS = 14  # of the chart
NEEDY = 10  # runs shown
SOONEST = 5  # requests shown
# From the bottom of a bar to its top; role and word as everywhere.
STACK = (
    (RunState.DONE, "approve", "Done"),
    (RunState.STOPPED, "block", "Stopped"),
    (RunState.FAILED, "failed", "Failed"),
    (RunState.WAITING, "waiting", "Waiting"),
)


@dataclass(frozen=True)
class Segment:
    """A part of a bar: where it is drawn, in percent of the chart."""

    role: str
    word: str
    count: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Day:
    """The runs that were launched on one day, by what became of them."""

    date: datetime
    segments: Sequence[Segment]
    counts: Sequence[int]


@dataclass(frozen=True)
class Overview:
    """The figures of the person's workspaces; money in minor units, cost in micro USD."""

    waiting: int
    oldest: Escalation | None
    today: dict[str, int]
    moved_minor: int
    lowered_minor: int
    refused: int
    cost_micro_usd: int
    unknown_cost: int
    days: Sequence[Day]
    needy: Sequence[Run]
    soonest: Sequence[reading.Row]  # to expire
    resting: Sequence[Endpoint]  # servers of models that are left alone

    @property
    def legend(self) -> list[tuple[str, str, int]]:
        """Return role, word and today's count of each outcome."""
        return [(role, word, self.today[word]) for _, role, word in STACK]


def overview(user: User, *, at: datetime) -> Overview:
    """Read the figures in a fixed number of queries."""
    runs = access.runs_of(user)
    open_ones = access.escalations_of(user).filter(state=EscalationState.OPEN)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    today = runs.filter(created_at__gte=midnight)
    asked = Step.objects.filter(run__in=today, kind="ask", ended_at__isnull=False)
    decided = access.escalations_of(user).filter(decided_at__gte=midnight)
    lowered = decided.filter(state=EscalationState.ADJUSTED).aggregate(
        total=Sum(F("requested_minor") - F("granted_minor"))
    )
    by_state = dict(today.values_list("state").annotate(Count("pk")).order_by())
    return Overview(
        waiting=open_ones.count(),
        oldest=open_ones.order_by("created_at", "pk").first(),
        today={word: by_state.get(state, 0) for state, _, word in STACK},
        moved_minor=_moved(runs, midnight),
        lowered_minor=lowered["total"] or 0,
        refused=today.filter(stop_reason__startswith="supervisor_block").count()
        + decided.filter(state=EscalationState.REJECTED).count(),
        cost_micro_usd=asked.aggregate(total=Sum("cost_micro_usd"))["total"] or 0,
        unknown_cost=asked.filter(cost_micro_usd=None, failed="").count(),
        days=_days(runs, midnight),
        needy=list(_needy(runs)),
        soonest=reading.inbox(access.workspaces_of(user))[:SOONEST],
        resting=list(Endpoint.objects.resting()),
    )


def _moved(runs: QuerySet[Run], since: datetime) -> int:
    """Return what refunds have paid since then."""
    paid = Effect.objects.filter(
        run__in=runs, tool="issue_refund", state=EffectState.DONE, settled_at__gte=since
    )
    return paid.aggregate(total=Sum("amount_minor"))["total"] or 0


def _needy(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return the runs that somebody has to look at: failed, or with an effect nobody can tell."""
    unknown = Q(effects__state=EffectState.UNKNOWN)
    found = runs.filter(Q(state=RunState.FAILED) | unknown).distinct()
    return found.order_by("-created_at", "-pk")[:NEEDY]


def _days(runs: QuerySet[Run], midnight: datetime) -> list[Day]:
    """Return a bar for each of the last days, today last, as high as its runs are many."""
    first = midnight - timedelta(days=DAYS - 1)
    counted = (
        runs.filter(created_at__gte=first)
        .annotate(day=TruncDate("created_at"))
        .values_list("day", "state")
        .annotate(Count("pk"))
        .order_by()
    )
    counts = {(day, state): count for day, state, count in counted}
    dates = [first + timedelta(days=n) for n in range(DAYS)]
    rows = [[counts.get((date.date(), state), 0) for state, _, _ in STACK] for date in dates]
    highest = max([sum(row) for row in rows] + [1])
    return [
        Day(date, _segments(n, row, highest), row)
        for n, (date, row) in enumerate(zip(dates, rows, strict=True))
    ]


def _segments(n: int, row: Sequence[int], highest: int) -> list[Segment]:
    """Place one day's bar: percent of the chart's width and height, from its top left."""
    width, found, y = 100 / DAYS, [], 100.0
    for (_, role, word), count in zip(STACK, row, strict=True):
        height = 100 * count / highest
        y -= height
        if count:
            place = (n * width + width * 0.15, y, width * 0.7, height)
            found.append(Segment(role, word, count, *(round(part, 2) for part in place)))
    return found
