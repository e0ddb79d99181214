"""What a monitoring system asks: counted from the rows at each scrape, over all workspaces."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.core.budget import BUDGETS
from agents.core.states import EffectState, EscalationState, RunState
from agents.engine.model_use import uses
from agents.engine.untold import notices, untold_effects
from agents.models import Effect, Endpoint, Escalation, Event, Run, Worker

FAULTS = ("llm_bad_response", "llm_error", "llm_rate_limited", "llm_timeout")  # of a server
MISSED = 2  # lengths of a lease without a sign of life: then a worker does not count


class Measures(Collector):
    """Every family of numbers, read when they are asked for."""

    def __init__(self, *, at: datetime) -> None:
        self.at = at

    def collect(self) -> Iterator[Metric]:
        yield _runs()
        yield _count_stopped()
        yield _gauge(
            "runs_waiting_for_model",
            "Runs that wait for a model's server and go on by themselves.",
            Run.objects.filter(state=RunState.QUEUED, wake_at__gt=Now()).count(),
        )
        yield from self._escalations()
        for one in notices():
            untold = untold_effects(since=self.at - timedelta(days=14), of=one)
            yield _gauge(one.gauge, one.means, untold.count())
        yield _gauge(
            "effects_unknown",
            "Writes of which nobody can tell yet whether they happened.",
            Effect.objects.unsettled().filter(state=EffectState.UNKNOWN).count(),
        )
        yield _gauge(
            "queue_oldest_seconds",
            "How long the run has waited for a worker that has waited longest.",
            self._age(_queued_at()),
        )
        yield _gauge("workers", "Workers that gave a sign of life lately.", workers().count())
        yield from _models()
        yield from _endpoints()

    def _escalations(self) -> Iterator[Metric]:
        found = Escalation.objects.filter(state=EscalationState.OPEN).aggregate(
            count=Count("pk"), oldest=Min("created_at")
        )
        yield _gauge("escalations_open", "Escalations that wait for a person.", found["count"])
        yield _gauge(
            "escalation_oldest_seconds",
            "How long the escalation has waited that has waited longest.",
            self._age(found["oldest"]),
        )

    def _age(self, since: datetime | None) -> float:
        return max(0.0, (self.at - since).total_seconds()) if since else 0.0


def workers() -> QuerySet[Worker]:
    """Return the workers that are at work."""
    length = timedelta(seconds=MISSED * settings.OPSCONSOLE_LEASE_SECONDS)
    return Worker.objects.seen_within(length)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"opsconsole_{name}", text, value=value)


def _runs() -> Metric:
    """Count the runs by state; also the states that no run is in, so that an alert has a row."""
    counted = Run.objects.order_by("state").values("state").annotate(count=Count("pk"))
    by_state = {row["state"]: row["count"] for row in counted}
    family = GaugeMetricFamily("opsconsole_runs", "Runs by state.", labels=["state"])
    for state in RunState:
        family.add_metric([state.value], by_state.get(state, 0))
    return family


def _count_stopped() -> Metric:
    """Count the runs that stopped for want of a model's answer, of time, tokens or money."""
    ours = Q(stop_reason__startswith="llm_") | Q(stop_reason__in=BUDGETS)
    stopped = Run.objects.filter(ours, state=RunState.STOPPED).order_by("stop_reason")
    by_reason = dict.fromkeys([*FAULTS, *sorted(BUDGETS)], 0)
    by_reason |= dict(stopped.values_list("stop_reason").annotate(Count("pk")))
    family = GaugeMetricFamily(
        "opsconsole_runs_stopped",
        "Runs that stopped for want of a model's answer, or because a budget was used up.",
        labels=["reason"],
    )
    for reason, count in by_reason.items():
        family.add_metric([reason], count)
    return family


def _queued_at() -> datetime | None:
    """Return when the run came into the queue that is there longest, of those that are due."""
    newest = Event.objects.filter(run=OuterRef("pk"), seq=OuterRef("event_count"))
    due = Run.objects.filter(state=RunState.QUEUED).exclude(wake_at__gt=Now())
    since = Coalesce("wake_at", Subquery(newest.values("at")[:1]), "created_at")
    oldest: datetime | None = due.aggregate(oldest=Min(since))["oldest"]
    return oldest


def _models() -> Iterator[Metric]:
    """Sum what models were asked, by the model that answered; "" where none has."""
    calls = CounterMetricFamily("opsconsole_model_calls", "Calls of models.", labels=["model"])
    tokens = CounterMetricFamily(
        "opsconsole_model_tokens",
        "Tokens used; lost are those reserved for calls without an answer.",
        labels=["model", "kind"],
    )
    cost = CounterMetricFamily(
        "opsconsole_model_cost_usd", "Cost of answers whose price is known.", labels=["model"]
    )
    for use in uses():
        model = use["model"]
        calls.add_metric([model], use["calls"])
        for kind, column in (("input", "in"), ("output", "out"), ("lost", "lost")):
            tokens.add_metric([model, kind], use[f"tokens_{column}"])
        cost.add_metric([model], use["cost_micro_usd"] / 1_000_000)
    yield from (calls, tokens, cost)


def _endpoints() -> Iterator[Metric]:
    """Tell of servers of models that have ever failed; those that never did have no row."""
    failures = GaugeMetricFamily(
        "opsconsole_endpoint_failures",
        "Failures of a model's server in a row.",
        labels=["endpoint"],
    )
    rests = GaugeMetricFamily(
        "opsconsole_endpoint_rests",
        "1 while a model's server is left alone, from its failures until it answers.",
        labels=["endpoint"],
    )
    for known in Endpoint.objects.order_by("address"):
        failures.add_metric([known.address], known.failures)
        rests.add_metric([known.address], known.rests_until is not None)
    yield from (failures, rests)
