"""The members page, to be read only: people are added and changed by command."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents.web import access
from agents.web.members import people


@require_safe
@never_cache
@login_required
def members(request: HttpRequest) -> HttpResponse:
    """List people, roles and limits of the workspaces that the person may audit."""
    workspaces = access.workspaces_to_audit(access.person(request), "the list of members")
    shown = {"nav": "members", "teams": people.teams(workspaces), "roles": people.ROLES.items()}
    return render(request, "members/page.html", shown)
