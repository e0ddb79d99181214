"""The policy: what new runs are held to, and who put it in force."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents.web import access
from agents.web.policy import versions


@require_safe
@never_cache
@login_required
def policy(request: HttpRequest) -> HttpResponse:
    """Show the version in force in each workspace; publishing is a command."""
    workspaces = access.workspaces_to_audit(access.person(request), "The policy")
    found = versions.governed(workspaces.select_related("policy").order_by("pk"))
    return render(request, "policy/page.html", {"nav": "policy", "governed": found})
