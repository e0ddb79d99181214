"""The kill switches: see what stands still, press one, release one in stages."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents import operations
from agents.web import access
from agents.web.forms import BadForm
from agents.web.kill import switches

LATE = ("on", "stage")  # somebody was first


@require_safe
@never_cache
@login_required
def kill(request: HttpRequest) -> HttpResponse:
    """Show every switch that stands, and what is still under way."""
    return _page(request)


@require_POST
@never_cache
@login_required
def press(request: HttpRequest) -> HttpResponse:
    """Press a switch; 409 where somebody was first."""
    user = access.person(request)
    workspace = access.workspace_to_stop(user, request.POST.get("workspace", ""))
    try:
        asked = switches.read_press(request.POST)
        operations.kill(
            workspace=workspace,
            by=user,
            reason=asked.reason,
            at=timezone.now(),
            scope=asked.scope,
            target=asked.target,
        )
    except (BadForm, operations.Refused) as no:
        return _refused(request, no)
    return redirect("kill")


@require_POST
@never_cache
@login_required
def release(request: HttpRequest) -> HttpResponse:
    """Release a switch by one stage; 409 where it is not where the form saw it."""
    user = access.person(request)
    workspace = access.workspace_to_stop(user, request.POST.get("workspace", ""))
    try:
        asked, to = switches.read_release(request.POST)
        operations.release(
            workspace=workspace,
            by=user,
            reason=asked.reason,
            at=timezone.now(),
            to=to,
            scope=asked.scope,
            target=asked.target,
        )
    except (BadForm, operations.Refused) as no:
        return _refused(request, no)
    return redirect("kill")


def _refused(request: HttpRequest, no: Exception) -> HttpResponse:
    is_late = isinstance(no, operations.Refused) and no.code in LATE
    return _page(request, sentence=str(no), status=409 if is_late else 422)


def _page(request: HttpRequest, *, sentence: str = "", status: int = 200) -> HttpResponse:
    shown = {
        "nav": "kill",
        "boards": switches.boards(access.person(request)),
        "sentence": sentence,
        "given": request.POST,
    }
    return render(request, "kill/page.html", shown, status=status)
