"""Probes and metrics for machines: is the process up, can it serve, and how is it doing?"""

import ipaddress
import logging
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from hmac import compare_digest

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Count, Min, OuterRef, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.core.limits import BUDGETS
from agents.core.requests import ENDED, EffectState, EscalationState, RunState
from agents.engine.desk.registry import known_desks
from agents.engine.runtime.database import DatabaseTooOld, pending_migrations, prove_writable
from agents.engine.tools.attention import letters_told, untold_effects
from agents.engine.upkeep import daily
from agents.models import CaseDay, Effect, Endpoint, Escalation, Event, Run, Worker

log = logging.getLogger(__name__)

_OK = "ok"
OPEN = [state for state in RunState if state not in ENDED]
# Headers that a proxy adds: then the address is the proxy's, on one machine loopback.
_FORWARDED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via")


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer if the process is alive; restart it when this fails, and only then."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Tell whether the process can serve; with 503 a proxy leaves it out."""
    parts = _readiness()
    # A desk that is gone while its runs wait is reported, but pages are still served.
    ready = all(word == _OK for name, word in parts.items() if name != "desks")
    return JsonResponse(parts, status=200 if ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics in Prometheus's format, to this machine or with the token."""
    if not (_has_token(request) or _is_local(request)):
        return HttpResponse("Give OPSCONSOLE_METRICS_TOKEN as a bearer token.\n", status=403)
    registry = CollectorRegistry()
    registry.register(_Measures(at=timezone.now()))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _readiness() -> dict[str, str]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        missing = pending_migrations()
        if missing:
            return {"database": _OK, "migrations": f"{missing} to apply", "worker": "unknown"}
        seen, desks = workers().exists(), _missing_desks()
    except DatabaseTooOld as old:
        return {"database": _OK, "migrations": str(old), "worker": "unknown"}
    except DatabaseError:
        log.exception("The database cannot be read")
        return {"database": "cannot be reached", "migrations": "unknown", "worker": "unknown"}
    worker = _OK if seen else "none was seen lately"
    try:
        prove_writable()
    except DatabaseError:
        log.exception("The database cannot be written")
        return {"database": "cannot be written", "migrations": _OK, "worker": worker}
    return {"database": _OK, "migrations": _OK, "worker": worker, **desks}


def _missing_desks() -> dict[str, str]:
    """Return the desks of open runs that this process lacks."""
    open_runs = Run.objects.filter(state__in=OPEN).exclude(desk__in=known_desks())
    missing = sorted(open_runs.values_list("desk", flat=True).distinct()[:10])
    return {"desks": f"missing: {', '.join(missing)}"} if missing else {}


def _has_token(request: HttpRequest) -> bool:
    token = settings.OPSCONSOLE_METRICS_TOKEN
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    same = compare_digest(given.strip().encode(), token.encode())
    return bool(token) and scheme.lower() == "bearer" and same


def _is_local(request: HttpRequest) -> bool:
    if settings.SECURE_PROXY_SSL_HEADER or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:  # a Unix socket has none, and only a proxy uses one
        return False


# Metrics for a monitoring system: counted from rows at each scrape, over all workspaces.


_MISSED = 2  # lease lengths without a sign of life, after which a worker does not count


class _Measures(Collector):
    """Every family of metrics, read at the scrape."""

    def __init__(self, *, at: datetime) -> None:
        self.at = at

    def collect(self) -> Iterator[Metric]:
        yield from _runs()
        yield _gauge(
            "runs_waiting_for_model",
            "Runs that wait for a model's server and go on by themselves.",
            Run.objects.filter(state=RunState.QUEUED, wake_at__gt=Now()).count(),
        )
        yield from self._escalations()
        for letter in letters_told():
            untold = untold_effects(since=self.at - timedelta(days=14), of=letter.told_tool)
            means = f"Calls of {letter.told_tool} in the last 14 days that no letter states."
            yield _gauge(letter.gauge, means, untold.count())
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
        figures = Escalation.objects.filter(state=EscalationState.OPEN).aggregate(
            count=Count("pk"), oldest=Min("created_at")
        )
        yield _gauge("escalations_open", "Escalations that wait for a person.", figures["count"])
        yield _gauge(
            "escalation_oldest_seconds",
            "How long the escalation has waited that has waited longest.",
            self._age(figures["oldest"]),
        )

    def _age(self, since: datetime | None) -> float:
        return max(0.0, (self.at - since).total_seconds()) if since else 0.0


def workers() -> QuerySet[Worker]:
    """Return the live workers, by the database's clock."""
    length = timedelta(seconds=_MISSED * settings.OPSCONSOLE_LEASE_SECONDS)
    return Worker.objects.filter(seen_at__gte=Now() - length)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"opsconsole_{name}", text, value=value)


def _runs() -> Iterator[Metric]:
    """Count the runs by state, and those that stopped for lack of an answer, time or money.

    Empty states are included, so that alerts have a series. Past days come from stored counts.
    """
    since, none = daily.summed_until(CaseDay), Value("")
    ended = daily.runs_ended_since(since) if since else Run.objects.exclude(ended_at=None)
    going = Run.objects.filter(state__in=set(RunState) - ENDED)
    days = CaseDay.objects.filter(outcome__in=daily.OF_RUNS)
    rows = days.values_list("outcome", none).annotate(n=Sum("count")).order_by()
    counts: Counter[str] = Counter()
    for state, reason, count in rows.union(
        ended.values_list("state", "stop_reason").annotate(n=Count("*")).order_by(),
        going.values_list("state", none).annotate(n=Count("*")).order_by(),
        all=True,
    ):
        counts[state if "." in state else f"run.{state}"] += count
        if state == RunState.STOPPED and daily.is_wanting(reason):
            counts[f"stop.{daily.code_of(reason)}"] += count
    family = GaugeMetricFamily("opsconsole_runs", "Runs by state.", labels=["state"])
    for state in RunState:
        family.add_metric([state.value], counts[f"run.{state}"])
    yield family
    family = GaugeMetricFamily(
        "opsconsole_runs_stopped",
        "Runs that stopped for want of a model's answer, or because a budget was used up.",
        labels=["reason"],
    )
    for reason in daily.WANTING:
        if reason in (*daily.FAULTS, *BUDGETS) or counts[f"stop.{reason}"]:
            family.add_metric([reason], counts[f"stop.{reason}"])
    yield family


def _queued_at() -> datetime | None:
    """Return since when the longest-waiting due run has been queued, or None."""
    newest = Event.objects.filter(run=OuterRef("pk"), seq=OuterRef("event_count"))
    due = Run.objects.filter(state=RunState.QUEUED).exclude(wake_at__gt=Now())
    since = Coalesce("wake_at", Subquery(newest.values("at")[:1]), "created_at")
    oldest: datetime | None = due.aggregate(oldest=Min(since))["oldest"]
    return oldest


def _models() -> Iterator[Metric]:
    """Sum the use of models, by the model that answered; "" if none did."""
    calls = CounterMetricFamily("opsconsole_model_calls", "Calls of models.", labels=["model"])
    tokens = CounterMetricFamily(
        "opsconsole_model_tokens",
        "Tokens used; lost are those reserved for calls without an answer.",
        labels=["model", "kind"],
    )
    cost = CounterMetricFamily(
        "opsconsole_model_cost_usd", "Cost of answers whose price is known.", labels=["model"]
    )
    for use in daily.uses():
        model = use["model"]
        calls.add_metric([model], use["calls"])
        for kind, column in (("input", "in"), ("output", "out"), ("lost", "lost")):
            tokens.add_metric([model, kind], use[f"tokens_{column}"])
        cost.add_metric([model], use["cost_micro_usd"] / 1_000_000)
    yield from (calls, tokens, cost)


def _endpoints() -> Iterator[Metric]:
    """Yield the state of model servers that have ever failed; others have no row."""
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
