"""The overview's figures: what waits, how decisions go, and what needs attention.

Sums are by day in the viewer's zone and read only the last days, by index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median

from django.contrib.auth.models import User
from django.db.models import F

from agents.core.money import format_money, format_sums
from agents.core.results import IN_WORDS, CameOf
from agents.core.states import EscalationState
from agents.models import Escalation, Run, Workspace
from agents.publishing.pages import readable_limits
from agents.requests.queue import InboxRow, WaitingCount, first_rows, reviewer
from agents.shell import access
from agents.shell.formats import day_begun, desk_title
from agents.shell.pages import newest
from agents.web.overview.attention import UNANSWERED, Attention, attention
from agents.web.overview.chart import Chart, Layer, chart
from agents.web.overview.counts import (
    DAYS,
    ENDED,
    SNOOZED,
    DayOfCalls,
    Requests,
    count_calls,
    count_requests,
    read_counted_days,
)
from agents.web.overview.system_status import SystemStatus, system

FIRST = 5  # requests shown
NEWEST = 100  # decisions that the median covers
AUTOMATIC, APPROVED, REJECTED, EXPIRED = (
    Layer("approve", "Automatic"),
    Layer("human", "Approved by a person"),
    Layer("block", "Rejected"),
    Layer("waiting", "Expired"),
)
BY_ITSELF, AFTER_APPROVAL, WITHHELD = (
    Layer("approve", "Automatic"),
    Layer("human", "After approval"),
    Layer("block", "Reduced or rejected"),
)
WORDS: dict[str, str] = {
    EscalationState.APPROVED: APPROVED.word,
    EscalationState.ADJUSTED: APPROVED.word,
    EscalationState.REJECTED: REJECTED.word,
    EscalationState.EXPIRED: EXPIRED.word,
}


@dataclass(frozen=True)
class Exposure:
    """What a workspace paid today without a person, and the cap; minor units."""

    workspace: str
    desk: str
    currency: str
    moved_minor: int
    cap_minor: int

    @property
    def percent(self) -> float:
        return min(100.0, 100 * self.moved_minor / self.cap_minor) if self.cap_minor else 100.0

    @property
    def moved(self) -> str:
        return format_money(self.moved_minor, self.currency)

    @property
    def cap(self) -> str:
        return format_money(self.cap_minor, self.currency)


@dataclass(frozen=True)
class Overview:
    """The figures of the person's workspaces; sums are in words, one for each currency."""

    waiting: WaitingCount
    waiting_sums: str
    snoozed: int  # by the reader, and not among them
    rows: Sequence[InboxRow]  # theirs, then the soonest to expire
    unanswered: Sequence[tuple[int, str]]  # requests that expired today, and their subjects
    is_new: bool  # nothing ever ran
    median_seconds: float | None  # from request to decision
    decisions: int  # that the median covers
    automatic: int  # calls without a person, in the charts' days
    decided: int  # requests decided or expired in the same days
    expired: int
    expired_today: int
    moved_sums: str  # today
    moved_calls: int  # today: those of the sums, and calls without money
    withheld_sums: str  # today
    came_of: Sequence[tuple[str, int]]  # of runs done today without a call, in words
    by_outcome: Chart
    by_amount: Sequence[Chart]  # one for each currency
    attention: Sequence[Attention]
    is_more: bool  # that needs attention than is listed
    exposures: Sequence[Exposure]
    system: SystemStatus

    @property
    def automatic_percent(self) -> int | None:
        """Return the share of cases without a person; None without cases."""
        cases = self.automatic + self.decided
        return round(100 * self.automatic / cases) if cases else None


def overview(user: User, *, at: datetime) -> Overview:
    """Read the figures in a fixed number of queries."""
    parts = access.parts_of(user)
    workspaces = [part.workspace for part in parts]
    keys = [workspace.pk for workspace in workspaces]
    midnight = day_begun(at)
    dates = [midnight.date() - timedelta(days=n) for n in reversed(range(DAYS))]
    since = midnight - timedelta(days=DAYS - 1)
    counted = read_counted_days(keys, since=since, at=at)
    rest = max(since, counted.until or since)
    requests = [*counted.requests, *count_requests(keys, reader=user.pk, since=rest, at=at)]
    named = _tools(workspaces)
    calls = [*counted.calls, *count_calls(keys, named=named, since=rest, today=at)]
    outcomes = _by_outcome(requests, calls, dates)
    waiting = [s for s in requests if s.state == EscalationState.OPEN]
    decided = [s for s in requests if s.state in WORDS]  # a sent-back request goes on
    lengths = _seconds_to_decide(keys)
    today = dates[-1]
    cases, is_more = attention(keys, since=at - timedelta(days=DAYS), today=midnight)
    who = reviewer(user, at=at)
    rows = first_rows(who, FIRST)
    snoozed = sum(s.count for s in requests if s.state == SNOOZED)
    return Overview(
        waiting=WaitingCount.of(
            sum(s.count for s in waiting),
            min((s.soonest for s in waiting if s.soonest), default=None),
        ),
        waiting_sums=_sums((s.currency, s.asked_minor) for s in waiting),
        snoozed=snoozed,
        rows=rows,
        unanswered=[
            (case.escalation, case.subject_label)
            for case in cases
            if case.kind == UNANSWERED and case.escalation
        ],
        is_new=not (rows or snoozed) and not Run.objects.filter(workspace__in=keys).exists(),
        median_seconds=median(lengths) if lengths else None,
        decisions=len(lengths),
        automatic=sum(s.count for s in calls if s.is_automatic),
        decided=sum(s.count for s in decided),
        expired=sum(day.counts[3] for day in outcomes.days),
        expired_today=outcomes.days[-1].counts[3],
        moved_sums=_sums((s.currency, s.moved_minor) for s in calls if s.day == today),
        moved_calls=sum(s.count for s in calls if s.day == today),
        withheld_sums=_sums((s.currency, s.withheld_minor) for s in decided if s.day == today),
        came_of=_came_of(requests),
        by_outcome=outcomes,
        by_amount=_by_amount(requests, calls, dates),
        attention=[case for case in cases if case.kind != UNANSWERED],
        is_more=is_more,
        exposures=_exposures(workspaces, calls),
        system=system(parts),
    )


def _sums(amounts: Iterable[tuple[str, int]]) -> str:
    """Return the sum of each currency in words, "" if there is none."""
    return format_sums((currency, minor) for currency, minor in amounts if minor)


def _came_of(counted: Sequence[Requests]) -> list[tuple[str, int]]:
    """Return what came of the goals of runs that were done today without a call, in words."""
    ended = {one.state.removeprefix(ENDED): one.count for one in counted}
    without = (one for one in IN_WORDS if one != CameOf.CARRIED_OUT)
    return [(IN_WORDS[one], ended[one]) for one in without if ended.get(one)]


def _seconds_to_decide(workspaces: Sequence[int]) -> list[float]:
    """Return how long the newest decisions took; expiries do not count."""
    decided = Escalation.objects.filter(decided_at__isnull=False)
    found = newest(decided, workspaces, "decided_at", NEWEST)
    lengths = found.annotate(taken=F("decided_at") - F("created_at"))
    return [length.total_seconds() for length in lengths.values_list("taken", flat=True)]


def _by_outcome(
    requests: Sequence[Requests], calls: Sequence[DayOfCalls], dates: Sequence[date]
) -> Chart:
    """Chart the cases of each day by outcome."""
    counted = [(s.day, WORDS.get(s.state, ""), s.count) for s in requests]
    counted += [(s.day, AUTOMATIC.word, s.count) for s in calls if s.is_automatic]
    return chart([AUTOMATIC, APPROVED, REJECTED, EXPIRED], dates, counted)


def _by_amount(
    requests: Sequence[Requests], calls: Sequence[DayOfCalls], dates: Sequence[date]
) -> list[Chart]:
    """Chart the money of each day by currency: what was paid, and what people withheld.

    One empty chart if there was none.
    """
    counted = [(s.currency, s.day, WITHHELD.word, s.withheld_minor) for s in requests]
    for call in calls:
        layer = BY_ITSELF if call.is_automatic else AFTER_APPROVAL
        counted.append((call.currency, call.day, layer.word, call.moved_minor))
    layers = [BY_ITSELF, AFTER_APPROVAL, WITHHELD]
    return [
        chart(layers, dates, [rest for of, *rest in counted if of == currency], currency=currency)
        for currency in sorted({of for of, *_, minor in counted if minor}) or [""]
    ]


def _exposures(workspaces: Sequence[Workspace], calls: Sequence[DayOfCalls]) -> list[Exposure]:
    """Return what was paid today without a person, nearest to its cap first."""
    found = []
    for workspace in workspaces:
        for (desk, currency), cap in sorted(_caps(workspace).items()):
            mine = (workspace.pk, desk, currency)
            moved = sum(s.exposed_minor for s in calls if (s.workspace, s.desk, s.currency) == mine)
            found.append(Exposure(workspace.name, desk_title(desk), currency, moved, cap))
    return sorted(found, key=lambda one: -one.percent)


def _tools(workspaces: Sequence[Workspace]) -> set[str]:
    """Return the tools of desks that the policies of some workspaces name."""
    read = [readable_limits(workspace.policy) for workspace in workspaces]
    desks = [part for one in read if one for part in one.desks.values()]
    return {tool for part in desks for tool in part.get("tools", ())}


def _caps(workspace: Workspace) -> dict[tuple[str, str], int]:
    """Return a policy's daily caps in minor units, by desk and currency."""
    limits = readable_limits(workspace.policy)
    if limits is None:
        return {}
    return {
        (desk, currency): caps["workspace_daily_minor"]
        for desk in limits.desks
        for currency, caps in limits.caps_of(desk).items()
        if caps.get("workspace_daily_minor") is not None
    }
