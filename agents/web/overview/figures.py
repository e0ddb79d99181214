"""What the first page tells: what waits, how today went, where somebody is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncDate

from agents.core.states import EffectState, EscalationState, RunState
from agents.models import Effect, Escalation, Run, Step
from agents.web import access
from agents.web.approvals import inbox
from agents.web.approvals.outcomes import why_not
from agents.web.outage import Outage, outage_for
from agents.web.overview.chart import Chart, Layer, chart
from agents.web.untold import untold_refunds

DAYS = 14  # of the charts
NEEDY = 10  # runs shown
SOONEST = 5  # requests shown
STATES = {
    RunState.DONE: Layer("approve", "Done"),
    RunState.STOPPED: Layer("block", "Stopped"),
    RunState.FAILED: Layer("failed", "Failed"),
    RunState.WAITING: Layer("waiting", "Waiting"),
}
PAID, LOWERED, REJECTED = (
    Layer("approve", "Paid"),
    Layer("revise", "Lowered by people"),
    Layer("block", "Rejected"),
)


@dataclass(frozen=True)
class Overview:
    """The figures of the person's workspaces; money in minor units, cost in micro USD."""

    waiting: int
    oldest: Escalation | None
    moved_minor: int
    lowered_minor: int
    refused: int
    cost_micro_usd: int
    unknown_cost: int
    runs: Chart
    money: Chart
    needy: Sequence[Run]
    not_carried_out: Sequence[NotCarriedOut]  # what people allowed and nobody did, newest first
    untold: Sequence[Effect]  # refunds whose customer was not written to, newest first
    soonest: Sequence[inbox.Row]  # to expire
    outage: Outage | None


@dataclass(frozen=True)
class NotCarriedOut:
    """An approval that came to nothing, and why."""

    escalation: Escalation
    act: str
    why: str


def overview(user: User, *, at: datetime) -> Overview:
    """Read the figures in a fixed number of queries."""
    runs = access.runs_of(user)
    open_ones = access.escalations_of(user).filter(state=EscalationState.OPEN)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    today = runs.filter(created_at__gte=midnight)
    asked = Step.objects.filter(run__in=today, kind="ask", ended_at__isnull=False)
    decided = access.escalations_of(user).filter(decided_at__gte=midnight)
    dates = [(midnight - timedelta(days=n)).date() for n in reversed(range(DAYS))]
    money = _by_amount(user, runs, dates)
    paid, lowered, _ = money.days[-1].counts
    return Overview(
        waiting=open_ones.count(),
        oldest=open_ones.order_by("created_at", "pk").first(),
        moved_minor=paid,
        lowered_minor=lowered,
        refused=today.filter(stop_reason__startswith="supervisor_block").count()
        + decided.filter(state=EscalationState.REJECTED).count(),
        cost_micro_usd=asked.aggregate(total=Sum("cost_micro_usd"))["total"] or 0,
        unknown_cost=asked.filter(cost_micro_usd=None, failed="").count(),
        runs=_by_state(runs, dates),
        money=money,
        needy=list(_needy(runs)),
        not_carried_out=_not_carried_out(user),
        untold=list(untold_refunds(since=at - timedelta(days=DAYS)).filter(run__in=runs)[:NEEDY]),
        soonest=inbox.inbox(access.workspaces_of(user)).rows[:SOONEST],
        outage=outage_for(user),
    )


def _not_carried_out(user: User) -> list[NotCarriedOut]:
    found = access.escalations_of(user).exclude(not_carried_out="").select_related("decided_by")
    newest = found.order_by("-decided_at", "-pk")[:NEEDY]
    return [NotCarriedOut(e, inbox.act(e), why_not(e.not_carried_out)) for e in newest]


def _needy(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return the runs that somebody has to look at: failed, or with an effect nobody can tell."""
    unknown = Q(effects__state=EffectState.UNKNOWN)
    found = runs.filter(Q(state=RunState.FAILED) | unknown).distinct()
    return found.order_by("-created_at", "-pk")[:NEEDY]


def _by_state(runs: QuerySet[Run], dates: Sequence[date]) -> Chart:
    """Chart the runs of each day, by what became of them."""
    counted = (
        runs.filter(created_at__date__gte=dates[0])
        .annotate(day=TruncDate("created_at"))
        .values_list("day", "state")
        .annotate(Count("pk"))
        .order_by()
    )
    known = {(day, STATES[RunState(state)].word): n for day, state, n in counted if state in STATES}
    return chart(list(STATES.values()), dates, known)


def _by_amount(user: User, runs: QuerySet[Run], dates: Sequence[date]) -> Chart:
    """Chart the money of each day: what was paid, and what people held back."""
    refunds = Effect.objects.filter(run__in=runs, tool="issue_refund", state=EffectState.DONE)
    paid = (
        refunds.filter(settled_at__date__gte=dates[0])
        .annotate(day=TruncDate("settled_at"))
        .values_list("day")
        .annotate(Sum("amount_minor"))
        .order_by()
    )
    held_back = (
        access.escalations_of(user)
        .filter(decided_at__date__gte=dates[0], requested_minor__isnull=False)
        .filter(state__in=(EscalationState.ADJUSTED, EscalationState.REJECTED))
        .annotate(day=TruncDate("decided_at"))
        .values_list("day", "state")
        .annotate(total=Sum(F("requested_minor") - Coalesce("granted_minor", 0)))
        .order_by()
    )
    known = {(day, PAID.word): total for day, total in paid}
    words = {EscalationState.ADJUSTED: LOWERED.word, EscalationState.REJECTED: REJECTED.word}
    known |= {(day, words[EscalationState(state)]): total for day, state, total in held_back}
    return chart([PAID, LOWERED, REJECTED], dates, known, of_money=True)
