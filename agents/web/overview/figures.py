"""What the first page tells: what waits, how decisions go, and what somebody has to look at.

Sums go by day in the viewer's zone and read the last days only, by index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from statistics import median

from django.contrib.auth.models import User
from django.db.models import Case, Count, DateField, F, Q, Sum, Value, When
from django.db.models.functions import Cast, Coalesce, TruncDate
from django.utils import timezone

from agents.core.limits import BadPolicy
from agents.core.states import DECIDED, EffectState, EscalationState
from agents.engine.desk_ledger import MAYBE_DONE
from agents.models import Effect, Escalation, Workspace
from agents.web import access
from agents.web.approvals.inbox import InboxRow, inbox
from agents.web.overview.attention import Attention, attention
from agents.web.overview.chart import Chart, Layer, chart
from agents.web.overview.system import System, system

DAYS = 14  # of the charts
SOONEST = 5  # requests shown
NEWEST = 100  # decisions that the median is of
LONGEST_RUN = timedelta(days=7)  # a refund of the charts is of a run that began no earlier
AUTOMATIC, APPROVED, REJECTED, EXPIRED = (
    Layer("approve", "Automatic"),
    Layer("human", "Approved by a person"),
    Layer("block", "Rejected"),
    Layer("waiting", "Expired"),
)
PAID, PAID_AFTER, NOT_GRANTED = (
    Layer("approve", "Paid automatically"),
    Layer("human", "Paid after approval"),
    Layer("block", "Reduced or rejected"),
)
WORDS = {
    EscalationState.APPROVED: APPROVED.word,
    EscalationState.ADJUSTED: APPROVED.word,
    EscalationState.REJECTED: REJECTED.word,
    EscalationState.EXPIRED: EXPIRED.word,
}


@dataclass(frozen=True)
class Exposure:
    """What was paid today without a person, in a workspace, against its cap; minor units."""

    workspace: str
    paid_minor: int
    cap_minor: int

    @property
    def percent(self) -> float:
        return min(100.0, 100 * self.paid_minor / self.cap_minor) if self.cap_minor else 100.0


@dataclass(frozen=True)
class Overview:
    """The figures of the person's workspaces; money in minor units."""

    waiting: int
    waiting_minor: int
    rows: Sequence[InboxRow]  # soonest to expire
    median_seconds: float | None  # from request to decision
    decisions: int  # that it is the median of
    automatic: int  # refunds of the charts' days that needed nobody
    decided: int  # requests that people decided or that expired, in the same days
    expired: int
    expired_today: int
    paid_minor: int  # today
    not_granted_minor: int  # today
    by_outcome: Chart
    by_amount: Chart
    attention: Sequence[Attention]
    exposures: Sequence[Exposure]
    system: System

    @property
    def automatic_percent(self) -> int | None:
        """Return the share of cases that no person saw; None where there was no case."""
        cases = self.automatic + self.decided
        return round(100 * self.automatic / cases) if cases else None


def overview(user: User, *, at: datetime) -> Overview:
    """Read the figures in a fixed number of queries."""
    parts = access.parts_of(user)
    workspaces = [part.workspace for part in parts]
    keys = [workspace.pk for workspace in workspaces]
    midnight = timezone.localtime(at).replace(hour=0, minute=0, second=0, microsecond=0)
    dates = [midnight.date() - timedelta(days=n) for n in reversed(range(DAYS))]
    since = midnight - timedelta(days=DAYS - 1)
    requests = _request_sums(keys, since=since)
    refunds = _refund_sums(keys, since=since, today=at.astimezone(UTC))
    outcomes = _by_outcome(requests, refunds, dates)
    amounts = _by_amount(requests, refunds, dates)
    waiting = [s for s in requests if s.state == EscalationState.OPEN]
    decided = [s for s in requests if s.state in {*DECIDED, EscalationState.EXPIRED}]
    lengths = _seconds_to_decide(keys)
    return Overview(
        waiting=sum(s.count for s in waiting),
        waiting_minor=sum(s.asked_minor for s in waiting),
        rows=inbox(keys, most=SOONEST).rows,
        median_seconds=median(lengths) if lengths else None,
        decisions=len(lengths),
        automatic=sum(s.count for s in refunds if s.is_automatic),
        decided=sum(s.count for s in decided),
        expired=sum(day.counts[3] for day in outcomes.days),
        expired_today=outcomes.days[-1].counts[3],
        paid_minor=sum(amounts.days[-1].counts[:2]),
        not_granted_minor=amounts.days[-1].counts[2],
        by_outcome=outcomes,
        by_amount=amounts,
        attention=attention(keys, since=since - LONGEST_RUN),
        exposures=_exposures(workspaces, refunds),
        system=system(parts),
    )


@dataclass(frozen=True)
class _Requests:
    """How many requests of one day came to one state; no day for what waits."""

    day: date | None
    state: str
    count: int
    asked_minor: int
    granted_minor: int


def _request_sums(workspaces: Sequence[int], *, since: datetime) -> list[_Requests]:
    ours = Escalation.objects.filter(workspace__in=workspaces).order_by()
    parts = (
        ours.filter(decided_at__gte=since).annotate(day=TruncDate("decided_at")),
        ours.filter(state=EscalationState.EXPIRED, expires_at__gte=since).annotate(
            day=TruncDate("expires_at")
        ),
        ours.filter(state=EscalationState.OPEN).annotate(day=Cast(Value(None), DateField())),
    )
    asked, granted = Coalesce("requested_minor", 0), Coalesce("granted_minor", 0)
    sums = [
        part.values_list("day", "state").annotate(n=Count("pk"), a=Sum(asked), g=Sum(granted))
        for part in parts
    ]
    return [_Requests(*row) for row in sums[0].union(*sums[1:], all=True)]


@dataclass(frozen=True)
class _Refunds:
    """What was paid on one day in one workspace, by people's leave or without."""

    day: date | None
    is_automatic: bool
    workspace: int
    count: int
    paid_minor: int
    exposed_minor: int  # today (UTC) and without a person, also what may have been paid


def _refund_sums(workspaces: Sequence[int], *, since: datetime, today: datetime) -> list[_Refunds]:
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
    is_automatic = Case(When(escalation=None, then=Value(True)), default=Value(False))
    is_paid = Q(state=EffectState.DONE, settled_at__gte=since)
    is_exposed = Q(escalation=None, intended_at__gte=midnight)
    rows = (
        Effect.objects.filter(tool="issue_refund", state__in=MAYBE_DONE)
        .filter(run__workspace__in=workspaces, run__created_at__gte=since - LONGEST_RUN)
        .annotate(day=TruncDate("settled_at"), is_automatic=is_automatic)
        .values_list("day", "is_automatic", "run__workspace")
        .annotate(
            n=Count("pk", filter=is_paid),
            paid=Coalesce(Sum("amount_minor", filter=is_paid), 0),
            exposed=Coalesce(Sum("amount_minor", filter=is_exposed), 0),
        )
        .order_by()
    )
    return [_Refunds(*row) for row in rows]


def _seconds_to_decide(workspaces: Sequence[int]) -> list[float]:
    """Return how long the newest decisions took; deadlines that ran out are none."""
    taken = Escalation.objects.filter(workspace__in=workspaces, decided_at__isnull=False)
    newest = taken.order_by("-decided_at", "-pk").annotate(taken=F("decided_at") - F("created_at"))
    return [length.total_seconds() for length in newest.values_list("taken", flat=True)[:NEWEST]]


def _by_outcome(
    requests: Sequence[_Requests], refunds: Sequence[_Refunds], dates: Sequence[date]
) -> Chart:
    """Chart the cases of each day, by who or what ended them."""
    counted = [(s.day, WORDS.get(EscalationState(s.state), ""), s.count) for s in requests]
    counted += [(s.day, AUTOMATIC.word, s.count) for s in refunds if s.is_automatic]
    return chart([AUTOMATIC, APPROVED, REJECTED, EXPIRED], dates, counted)


def _by_amount(
    requests: Sequence[_Requests], refunds: Sequence[_Refunds], dates: Sequence[date]
) -> Chart:
    """Chart the money of each day: what was paid, and what people did not grant."""
    counted = [
        (s.day, NOT_GRANTED.word, s.asked_minor - s.granted_minor)
        for s in requests
        if s.state in DECIDED
    ]
    counted += [
        (s.day, PAID.word if s.is_automatic else PAID_AFTER.word, s.paid_minor) for s in refunds
    ]
    return chart([PAID, PAID_AFTER, NOT_GRANTED], dates, counted, of_money=True)


def _exposures(workspaces: Sequence[Workspace], refunds: Sequence[_Refunds]) -> list[Exposure]:
    """Return what went out today without a person, where a cap is in force."""
    found = []
    for workspace in workspaces:
        try:
            cap = workspace.policy.limits().workspace_daily_minor if workspace.policy else None
        except BadPolicy:
            cap = None
        if cap is not None:
            paid = sum(s.exposed_minor for s in refunds if s.workspace == workspace.pk)
            found.append(Exposure(workspace.name, paid, cap))
    return found
