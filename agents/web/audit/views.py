"""The audit log: browse it, verify it, take a copy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from agents.audit import bundle as record_bundle
from agents.core.event_kinds import LEDGER
from agents.models import Verification, Workspace
from agents.operations.records import auditing, verifying
from agents.shell import access
from agents.shell.event_words import kind_labels
from agents.shell.formats import in_utc
from agents.shell.pages import action, page
from agents.web.audit import export as exports
from agents.web.audit import log
from agents.web.audit.state import AuditState, check_notes, state_of

NAMED = 100  # faults on the page


@page
@in_utc
def audit(request: HttpRequest) -> HttpResponse:
    """List decisions and money, or all events, newest first."""
    return _page(request)


@action
@in_utc
def verify(request: HttpRequest) -> HttpResponse:
    """Have a worker verify every chain of the person's workspaces."""
    by = access.person(request)
    workspaces = access.workspaces_to_audit(by)
    is_full = request.POST.get("all") == "1"
    verifying.ask_verification(by=by, workspaces=workspaces, is_full=is_full, at=timezone.now())
    return redirect("audit")


@action
def verify_cancel(request: HttpRequest) -> HttpResponse:
    """Cancel the check that the person is waiting for."""
    by = access.person(request)
    access.workspaces_to_audit(by)
    verifying.cancel_verification(by=by, at=timezone.now())
    return redirect("audit")


def _check_state(
    request: HttpRequest, state: AuditState, workspaces: Sequence[Workspace]
) -> dict[str, object]:
    """Return the progress or result of the person's check, unless there is a newer one."""
    newest = Verification.objects.filter(by=access.person(request)).order_by("-pk").first()
    if newest is None or newest.cancelled_at:
        return {}
    outcome, at = newest.outcome, newest.ended_at
    if at is None or outcome is None:
        return {"checking": newest}
    if not {one.pk for one in workspaces}.issuperset(
        newest.workspaces
    ):  # faults name what rows hold
        return {}
    if "failed" in outcome:
        return {"check_failed": outcome["failed"]}
    # No seal covers its row, so the log's entry about it takes precedence.
    told_at = state.checked_at
    if told_at is None or abs(told_at - at) > timedelta(seconds=10):
        return {}
    if state.faults and not outcome["faults"]:
        return {}
    notes = check_notes(outcome)
    left = {"unread": outcome.get("unread", 0), "since": outcome.get("since")}
    faults = {"faults": outcome["faults"][:NAMED], "named": NAMED}
    faults["count"] = len(outcome["faults"]) + outcome["more"]
    return {"checked": outcome["chains"], "notes": notes} | faults | left


@action
@in_utc
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Export the filtered log as CSV; the file says where it was cut, the log that it was taken."""
    wanted = log.read_filter(request.POST)
    workspaces = access.workspaces_to_audit(access.person(request))
    workspace = access.choose_workspace(workspaces, wanted.given.get("workspace", ""))
    at = timezone.now()
    found = log.find_events(workspace, wanted)
    keys = list(found.events.values_list("pk", flat=True)[: exports.EXPORTED + 1])
    is_cut = found.is_cut or len(keys) > exports.EXPORTED
    keys = keys[: exports.EXPORTED]
    facts = {"rows": len(keys), "filter": wanted.given, **({"cut": True} if is_cut else {})}
    auditing.record_export(workspace=workspace, by=access.person(request), facts=facts, at=at)
    archived = log.archived_runs(workspace, wanted)
    # Fixed keys, as the filter may match other events while the file is sent.
    lines = exports.csv_lines(log.events_of(workspace), keys, is_cut=is_cut, archived=archived)
    name = f"audit-log-{at:%Y%m%d-%H%M%S}{'-cut' if is_cut else ''}.csv"
    return exports.download(request, lines, name)


@action
def bundle(request: HttpRequest) -> StreamingHttpResponse:
    """Export the whole record as JSON lines for the standalone verifier, and record that."""
    workspaces = access.workspaces_to_audit(access.person(request))
    at = timezone.now()
    for workspace in workspaces:
        facts = {"bundle": record_bundle.FORMAT}
        auditing.record_export(workspace=workspace, by=access.person(request), facts=facts, at=at)
    lines = record_bundle.lines(workspaces, at=at)
    return exports.download(request, lines, f"audit-log-{at:%Y%m%d-%H%M%S}.jsonl")


def _page(request: HttpRequest) -> HttpResponse:
    workspaces = access.workspaces_to_audit(access.person(request))
    wanted = log.read_filter(request.GET)
    workspace = access.choose_workspace(workspaces, wanted.given.get("workspace", ""))
    found = log.find_events(workspace, wanted)
    kinds = log.kinds_of(workspace)
    is_archived = "archive.written" in kinds
    state = state_of(workspace, file=settings.OPSCONSOLE_HEADS_FILE)
    shown = {
        "nav": "audit",
        "page": log.page_of(found.events, request.GET.get("before", "")),
        "most_runs": log.RUNS if found.is_cut else None,
        "archived": log.archived_runs(workspace, wanted) if is_archived else 0,
        "wanted": wanted,
        "given": wanted.given,
        "kinds": kind_labels(kinds | {wanted.given.get("event", "")} - {""}),
        "workspaces": workspaces,
        "workspace": workspace,
        "state": state,
        "ledger": LEDGER,
        "most": exports.EXPORTED,
        "copy_size": None if wanted.is_narrowed else log.copy_size(workspaces, is_long=is_archived),
        **_check_state(request, state, workspaces),
    }
    return render(request, "audit/page.html", shown)
