"""The first page."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents import operations
from agents.web import access
from agents.web.overview.figures import overview
from agents.web.overview.start_here import first_steps


@require_safe
@never_cache
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """Show what waits, how decisions go and what somebody has to look at."""
    user = access.person(request)
    found = overview(user, at=timezone.now())
    shown = {"o": found, "waiting": found.waiting, "first_steps": first_steps(user)}
    return render(request, "overview/page.html", {**shown, "nav": "home"})


@require_POST
@never_cache
@login_required
def try_now(request: HttpRequest) -> HttpResponse:
    """Have the models' servers called now that runs wait for."""
    try:
        operations.try_models(by=access.person(request), at=timezone.now())
    except operations.Refused as no:
        raise PermissionDenied(str(no)) from None
    return redirect("home")
