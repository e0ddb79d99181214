"""Probes and metrics for machines: is the process up, can it serve, and how is it doing?"""

from __future__ import annotations

import ipaddress
import logging
from hmac import compare_digest

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from agents.core.states import ENDED, RunState
from agents.engine.desk.registry import known_desks
from agents.engine.runtime.database_state import DatabaseTooOld, pending_migrations, prove_writable
from agents.models import Run
from agents.web.health.measures import Measures, workers

log = logging.getLogger(__name__)

OK = "ok"
OPEN = [state for state in RunState if state not in ENDED]
# Headers that a proxy adds: then the address is the proxy's, on one machine loopback.
FORWARDED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via")


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer if the process is alive; restart it when this fails, and only then."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Tell whether the process can serve; with 503 a proxy leaves it out."""
    found = _readiness()
    # A desk that is gone while its runs wait is reported, but pages are still served.
    ready = all(word == OK for name, word in found.items() if name != "desks")
    return JsonResponse(found, status=200 if ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics in Prometheus's format, to this machine or with the token."""
    if not (_has_token(request) or _is_local(request)):
        return HttpResponse("Give OPSCONSOLE_METRICS_TOKEN as a bearer token.\n", status=403)
    registry = CollectorRegistry()
    registry.register(Measures(at=timezone.now()))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _readiness() -> dict[str, str]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        missing = pending_migrations()
        if missing:
            return {"database": OK, "migrations": f"{missing} to apply", "worker": "unknown"}
        seen, desks = workers().exists(), _missing_desks()
    except DatabaseTooOld as old:
        return {"database": OK, "migrations": str(old), "worker": "unknown"}
    except DatabaseError:
        log.exception("The database cannot be read")
        return {"database": "cannot be reached", "migrations": "unknown", "worker": "unknown"}
    worker = OK if seen else "none was seen lately"
    try:
        prove_writable()
    except DatabaseError:
        log.exception("The database cannot be written")
        return {"database": "cannot be written", "migrations": OK, "worker": worker}
    return {"database": OK, "migrations": OK, "worker": worker, **desks}


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
    if settings.SECURE_PROXY_SSL_HEADER or any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:  # a Unix socket has none, and only a proxy uses one
        return False
