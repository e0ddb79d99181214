"""The overview."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from agents.runs import outage
from agents.shell import access, refusal
from agents.shell.pages import action, page
from agents.web.overview.figures import overview
from agents.web.overview.start_here import first_steps


@page
def home(request: HttpRequest) -> HttpResponse:
    """Show what waits, how decisions go and what needs attention."""
    user = access.person(request)
    found = overview(user, at=timezone.now())
    shown = {"o": found, "waiting": found.waiting, "first_steps": first_steps(user)}
    return render(request, "overview/page.html", {**shown, "nav": "home"})


@action
def try_now(request: HttpRequest) -> HttpResponse:
    """Call the model servers now that runs wait for."""
    try:
        outage.try_models(by=access.person(request), at=timezone.now())
    except refusal.Refused as no:
        raise PermissionDenied(str(no)) from None
    return redirect("home")
