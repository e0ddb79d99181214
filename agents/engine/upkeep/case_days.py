"""Count the outcomes of cases: the sweep counts each past day once, pages count the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, Count, F, Min, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce

from agents.core.limits import BUDGETS
from agents.core.request_kinds import ACTION
from agents.core.states import ENDED, EffectState, EscalationState, RunState
from agents.engine.upkeep import day_sums
from agents.models import CaseDay, Effect, Run, Workspace
from agents.models.runs import EffectQuerySet
from agents.tools import letter_tools

AUTOMATIC, PERMITTED = "call.automatic", "call.permitted"
FAULTS = ("llm_bad_response", "llm_error", "llm_rate_limited", "llm_timeout")  # of a server
_OF_MODELS = ("llm_empty", "llm_ended", "llm_refused", "llm_stray_call", "llm_truncated")
WANTING = (*FAULTS, *_OF_MODELS, *sorted(BUDGETS))
OF_RUNS = (*(f"run.{one}" for one in sorted(ENDED)), *(f"stop.{one}" for one in WANTING))
# Letters name an amount too, and a lost call was already counted when first asked about. People
# withheld what they rejected, and what they took off an amount that was then paid.
ASKED = Coalesce(Sum(Case(When(kind=ACTION.stored, then="amount_minor"), default=0)), 0)
_TAKEN_OFF = F("amount_minor") - F("effect__amount_minor")
WITHHELD = Coalesce(
    Sum(
        Case(
            When(kind=ACTION.stored, state=EscalationState.REJECTED, then="amount_minor"),
            When(kind=ACTION.stored, state=EscalationState.ADJUSTED, then=_TAKEN_OFF),
            default=0,
        )
    ),
    0,
)
IS_AUTOMATIC = Case(When(escalation=None, then=Value(True)), default=Value(False))


def count_next_day(*, at: datetime) -> int:
    """Count the first past day that is not counted yet. Return the number of rows added."""
    day = day_sums.day_to_sum(day_sums.summed_until(CaseDay) or _first_day(), at=at)
    if day is None:
        return 0
    begin, end = day
    first = Workspace.objects.order_by("pk")[0]
    counts, minors = Counter[tuple[int, str, str]](), Counter[tuple[int, str, str]]()
    counts[first.pk, "", ""] = 0
    for pk, outcome, currency, count, minor in _count_cases(begin, end):
        # Nobody needs these by workspace: stored under one, they take few rows.
        workspace = first.pk if outcome in OF_RUNS else pk
        counts[workspace, outcome, currency] += count
        minors[workspace, outcome, currency] += minor
    rows = [
        CaseDay(
            workspace_id=key[0],
            day=begin.date(),
            outcome=key[1],
            currency=key[2],
            count=count,
            minor=minors[key],
        )
        for key, count in counts.items()
    ]
    return len(CaseDay.objects.bulk_create(rows, ignore_conflicts=True))


def runs_ended_since(since: datetime) -> QuerySet[Run]:
    """Return the runs that ended since then, by their index.

    The range ends far in the future: for an open one SQLite expects a quarter of all runs.
    """
    return Run.objects.filter(ended_at__gte=since, ended_at__lt=since + timedelta(days=36_500))


def calls_between(begin: datetime, end: datetime | None, tools: Collection[str]) -> EffectQuerySet:
    """Return the calls of these tools carried out in [begin, end), by their index."""
    done = Effect.objects.filter(state=EffectState.DONE, tool__in=tools, settled_at__gte=begin)
    return done.filter(settled_at__lt=end) if end else done


def is_wanting(reason: str) -> bool:
    """Tell whether a run stopped for lack of a model's answer, time, tokens or money."""
    return code_of(reason) in WANTING


def code_of(reason: str) -> str:
    """Return a reason without its quotation, which may have to be erased."""
    return reason.partition(":")[0]


def _first_day() -> datetime | None:
    """Return when the first run ended or was escalated."""
    known = (day_sums.first_request(), Run.objects.aggregate(first=Min("ended_at"))["first"])
    return min((one for one in known if one), default=None)


def _count_cases(begin: datetime, end: datetime) -> Iterator[tuple[Any, ...]]:
    """Yield workspace, outcome, currency, count and minor units."""
    ended = Run.objects.filter(ended_at__gte=begin, ended_at__lt=end).order_by()
    for pk, state, reason, n in ended.values_list("workspace", "state", "stop_reason").annotate(
        n=Count("*")
    ):
        yield pk, f"run.{state}", "", n, 0
        if state == RunState.STOPPED and is_wanting(reason):
            yield pk, f"stop.{code_of(reason)}", "", n, 0
    for asked in day_sums.closed_between(begin, end):
        sums = asked.values_list("workspace", "state", "currency")
        for pk, state, *rest in sums.annotate(n=Count("pk"), w=WITHHELD):
            yield pk, f"request.{state}", *rest
    letters = letter_tools()
    tools = set(Effect.objects.order_by("tool").values_list("tool", flat=True).distinct()) - letters
    done = calls_between(begin, end, tools).order_by().annotate(auto=IS_AUTOMATIC)
    calls = done.values_list("run__workspace", "auto", "currency")
    moved = Coalesce(Sum("amount_minor"), 0)
    for pk, is_automatic, *rest in calls.annotate(n=Count("pk"), moved=moved):
        yield pk, AUTOMATIC if is_automatic else PERMITTED, *rest
