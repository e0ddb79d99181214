"""The case file of a run, and its proof to download."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from agents.audit import copies
from agents.audit.copies import download
from agents.notifications.fan_out import KEPT
from agents.shell import access
from agents.shell.formats import in_utc
from agents.shell.pages import action, page, whole_number
from agents.web.case.file import case_file


@page
@in_utc
def case(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a run's record for reading and printing."""
    found = access.run_to_audit(access.person(request), pk)
    shown = {
        "nav": "runs",
        "file": case_file(found, after=whole_number(request.GET.get("after", "")) or 0),
        "run": found,
        "as_of": timezone.now(),
        "kept": KEPT.days,
        "address": request.build_absolute_uri(request.path),
    }
    return render(request, "case/page.html", shown)


@action
def case_proof(request: HttpRequest, pk: UUID) -> StreamingHttpResponse:
    """Export the record of a run with the heads that seal it, and record that."""
    found = access.run_to_audit(access.person(request), pk)
    at = timezone.now()
    facts = {"bundle": copies.FORMAT, "run": str(found.pk)}
    copies.record_export(workspace=found.workspace, by=access.person(request), facts=facts, at=at)
    return download(
        request, copies.lines_of_run(found, at=at), f"run-{found.pk}-{at:%Y%m%d-%H%M%S}.jsonl"
    )
