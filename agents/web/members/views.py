"""The members page, to be read only: people are added and changed by command."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agents.web import access
from agents.web.members import people
from agents.web.pages import page


@page
def members(request: HttpRequest) -> HttpResponse:
    """List people, roles and limits of the workspaces that the person may audit."""
    workspaces = access.workspaces_to_audit(access.person(request), "the list of members")
    shown = {
        "nav": "members",
        "staff": people.members_of(workspaces),
        "roles": people.ROLES.items(),
    }
    return render(request, "members/page.html", shown)
