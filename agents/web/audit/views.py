"""The record: browse it, have its chains checked, take a copy."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents import operations
from agents.audit import bundle as record_bundle
from agents.audit.verify import prove
from agents.models import Event, Run
from agents.web import access
from agents.web.audit import log
from agents.web.times import in_utc


@require_safe
@never_cache
@login_required
@in_utc
def audit(request: HttpRequest) -> HttpResponse:
    """List the events of the record, newest first."""
    return _page(request)


@require_POST
@never_cache
@login_required
@in_utc
def verify(request: HttpRequest) -> HttpResponse:
    """Check every chain of the person's workspaces, and say which do not hold."""
    workspaces = access.workspaces_to_audit(access.person(request))
    runs = Run.objects.filter(workspace__in=workspaces)
    file = settings.OPSCONSOLE_HEADS_FILE
    found = prove(runs=runs, workspaces=workspaces, file=file)
    faults = [str(chain) for chain in found.faults]
    for workspace in workspaces:
        operations.record_verification(
            workspace=workspace,
            by=access.person(request),
            facts={"chains": found.chains, "heads": found.heads, "faults": faults[:20]},
            at=timezone.now(),
        )
    return _page(request, {"checked": found.chains, "faults": faults, "limits": found.limits()})


@require_POST
@never_cache
@login_required
@in_utc
def export(request: HttpRequest) -> HttpResponse:
    """Give the filtered record as CSV; that it was taken is on record."""
    workspaces = access.workspaces_to_audit(access.person(request))
    wanted = log.read_filter(request.POST)
    at = timezone.now()
    found = list(log.events(workspaces, wanted)[: log.EXPORTED])
    for workspace in workspaces:
        facts = {"rows": len(found), "filter": wanted.given}
        operations.record_export(workspace=workspace, by=access.person(request), facts=facts, at=at)
    response = HttpResponse(log.as_csv(found), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="record-{at:%Y%m%d-%H%M%S}.csv"'
    return response


@require_POST
@never_cache
@login_required
def bundle(request: HttpRequest) -> StreamingHttpResponse:
    """Give the whole record as JSON lines for the standalone check; that it was taken is in it."""
    workspaces = access.workspaces_to_audit(access.person(request))
    at = timezone.now()
    for workspace in workspaces:
        facts = {"bundle": record_bundle.FORMAT}
        operations.record_export(workspace=workspace, by=access.person(request), facts=facts, at=at)
    lines = record_bundle.lines(workspaces, at=at)
    # An ASGI server would take a plain iterator whole into memory first.
    content = log.drawn(lines) if isinstance(request, ASGIRequest) else lines
    response = StreamingHttpResponse(content, content_type="application/jsonl; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="record-{at:%Y%m%d-%H%M%S}.jsonl"'
    return response


def _page(request: HttpRequest, checked: dict[str, object] | None = None) -> HttpResponse:
    workspaces = access.workspaces_to_audit(access.person(request))
    wanted = log.read_filter(request.GET)
    found = log.events(workspaces, wanted)
    kinds = Event.objects.filter(workspace__in=workspaces).values_list("kind", flat=True)
    shown = {
        "nav": "audit",
        "page": log.page_of(found, request.GET.get("before", "")),
        "wanted": wanted,
        "given": wanted.given,
        "kinds": kinds.order_by("kind").distinct(),
        **(checked or {}),
    }
    return render(request, "audit/page.html", shown)
