"""Sum the use of models: the sweep sums each past day once, pages sum the rest."""

from __future__ import annotations

from datetime import datetime

from django.db.models import F, Min, QuerySet, Sum
from django.db.models.functions import Coalesce

from agents.core.requests import Json
from agents.core.states import ENDED, RunState
from agents.engine.upkeep import day_sums
from agents.engine.upkeep.case_days import runs_ended_since
from agents.models import ModelUse, Run, Step
from agents.models.runs import IsAsk

SUMS = {
    "calls": Sum("attempts"),
    "tokens_in": Sum("tokens_in"),
    "tokens_out": Sum("tokens_out"),
    "tokens_lost": Sum("tokens_lost"),
    "cost_micro_usd": Coalesce(Sum("cost_micro_usd"), 0),
}


def sum_next_day(*, at: datetime) -> int:
    """Sum the first past day that is not summed yet. Return the number of rows added."""
    since = day_sums.summed_until(ModelUse)
    ended = Run.objects.filter(ended_at__gte=since) if since else Run.objects.all()
    day = day_sums.day_to_sum(ended.aggregate(first=Min("ended_at"))["first"], at=at)
    if day is None:
        return 0
    begin, end = day
    asked = Step.objects.filter(kind="ask", run__ended_at__gte=begin, run__ended_at__lt=end)
    sums = asked.order_by().values("model").annotate(**SUMS)
    rows = [ModelUse(day=begin.date(), **row) for row in sums]
    none = ModelUse(day=begin.date(), model="", **dict.fromkeys(SUMS, 0))
    return len(ModelUse.objects.bulk_create(rows or [none], ignore_conflicts=True))


def uses() -> list[Json]:
    """Return the use of each model until now, as named in SUMS."""
    columns, since = ("model", *SUMS), day_sums.summed_until(ModelUse)
    # The same day bounds both: another may be summed between the two queries.
    days = ModelUse.objects.filter(day__lt=since.date()) if since else ModelUse.objects.none()
    kept = days.values("model").annotate(**{name: Sum(name) for name in SUMS})
    rest = _questions_since(since).values("model").annotate(**SUMS)
    found: dict[str, Json] = {}
    for row in (*kept.values(*columns), *rest.values(*columns)):
        one = found.setdefault(row["model"], {"model": row["model"], **dict.fromkeys(SUMS, 0)})
        one.update({name: one[name] + row[name] for name in SUMS})
    return [use for _, use in sorted(found.items()) if use["calls"]]


def _questions_since(since: datetime | None) -> QuerySet[Step]:
    """Return the model calls of runs that ended since then or have not ended."""
    asked = Step.objects.filter(IsAsk(F("kind"))).order_by()
    if since is None:
        return asked
    # Not as one condition, for which SQLite would read every run.
    going = Run.objects.filter(state__in=set(RunState) - ENDED).values("pk")
    return asked.filter(run__in=going.union(runs_ended_since(since).values("pk")))
