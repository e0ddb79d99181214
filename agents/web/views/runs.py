"""Runs: the newest, and one with all its steps."""

from __future__ import annotations

import json
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents.web import access, reading


@require_safe
@never_cache
@login_required
def runs(request: HttpRequest) -> HttpResponse:
    """List the newest runs."""
    found = reading.recent_runs(access.person(request))
    return render(request, "runs/list.html", {"runs": found, "nav": "runs"})


@require_safe
@never_cache
@login_required
def run(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a run: what it was to do, each step, and what came of it."""
    page = reading.run_page(access.run_for(access.person(request), pk))
    raw = json.dumps(page.result, indent=2, ensure_ascii=False)
    shown = {"page": page, "run": page.run, "raw": raw, "nav": "runs"}
    return render(request, "runs/detail.html", shown)
