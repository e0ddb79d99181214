"""The audit log: browse it, verify it, take a copy."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from agents import operations
from agents.audit import bundle as record_bundle
from agents.audit.verify import prove
from agents.core.event_kinds import LEDGER
from agents.models import Run, Workspace
from agents.models.approval import withheld_reasons
from agents.web import access
from agents.web.audit import export as exports
from agents.web.audit import log
from agents.web.audit.state import check_notes, state_of
from agents.web.pages import action, page
from agents.web.sentences import kind_labels, read_events
from agents.web.times import in_utc


@page
@in_utc
def audit(request: HttpRequest) -> HttpResponse:
    """List decisions and money, or all events, newest first."""
    return _page(request)


@action
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
    return _page(request, {"checked": found.chains, "faults": faults, "notes": check_notes(found)})


@action
@in_utc
def export(request: HttpRequest) -> HttpResponse:
    """Give the filtered log as CSV; the file says where it was cut, the log that it was taken."""
    wanted = log.read_filter(request.POST)
    workspace = access.chosen(_workspaces(request), wanted.given.get("workspace", ""))
    at = timezone.now()
    found = log.find_events(workspace, wanted)
    rows = read_events(found.events, exports.EXPORTED + 1)
    is_cut = found.is_cut or len(rows) > exports.EXPORTED
    rows = rows[: exports.EXPORTED]
    facts = {"rows": len(rows), "filter": wanted.given, **({"cut": True} if is_cut else {})}
    operations.record_export(workspace=workspace, by=access.person(request), facts=facts, at=at)
    withheld = withheld_reasons(access.decides_in(access.person(request)))
    text = exports.as_csv(rows, is_cut=is_cut, withheld=withheld)
    response = HttpResponse(text, content_type="text/csv; charset=utf-8")
    name = f"audit-log-{at:%Y%m%d-%H%M%S}{'-cut' if is_cut else ''}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@action
def bundle(request: HttpRequest) -> StreamingHttpResponse:
    """Give the whole record as JSON lines for the standalone check; that it was taken is in it."""
    workspaces = access.workspaces_to_audit(access.person(request))
    at = timezone.now()
    for workspace in workspaces:
        facts = {"bundle": record_bundle.FORMAT}
        operations.record_export(workspace=workspace, by=access.person(request), facts=facts, at=at)
    lines = record_bundle.lines(workspaces, at=at)
    return exports.download(request, lines, f"audit-log-{at:%Y%m%d-%H%M%S}")


def _page(request: HttpRequest, checked: dict[str, object] | None = None) -> HttpResponse:
    workspaces = _workspaces(request)
    wanted = log.read_filter(request.GET)
    workspace = access.chosen(workspaces, wanted.given.get("workspace", ""))
    found = log.find_events(workspace, wanted)
    shown = {
        "nav": "audit",
        "page": log.page_of(found.events, request.GET.get("before", "")),
        "most_runs": log.RUNS if found.is_cut else None,
        "wanted": wanted,
        "given": wanted.given,
        "kinds": kind_labels(),
        "workspaces": workspaces,
        "workspace": workspace,
        "state": state_of(workspace, file=settings.OPSCONSOLE_HEADS_FILE),
        "ledger": LEDGER,
        "most": exports.EXPORTED,
        **(checked or {}),
    }
    return render(request, "audit/page.html", shown)


def _workspaces(request: HttpRequest) -> list[Workspace]:
    found = access.workspaces_to_audit(access.person(request))
    return sorted(found, key=lambda workspace: workspace.pk)
