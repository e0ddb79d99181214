"""The kill switches: see what is stopped, press one, release one in stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone

from agents.models import KillSwitch
from agents.runs import kill_switch
from agents.shell import access, refusal
from agents.shell.pages import BadForm, action, page

LATE = ("on", "stage")  # someone was faster


@page
def kill(request: HttpRequest) -> HttpResponse:
    """Show every switch in force, and writes still under way."""
    return _page(request)


@action
def press(request: HttpRequest) -> HttpResponse:
    """Press a switch; 409 if someone was faster."""
    return _move(request, kill_switch.read_press, kill_switch.kill)


@action
def release(request: HttpRequest) -> HttpResponse:
    """Release a switch by one stage; 409 if it is no longer at the form's stage."""
    return _move(request, kill_switch.read_release, kill_switch.release)


def _move(
    request: HttpRequest,
    read: Callable[[QueryDict], dict[str, Any]],
    move: Callable[..., KillSwitch],
) -> HttpResponse:
    user = access.person(request)
    workspace = access.workspace_to_stop(user, request.POST.get("workspace", ""))
    try:
        move(workspace=workspace, by=user, at=timezone.now(), **read(request.POST))
    except (BadForm, refusal.Refused) as no:
        is_late = isinstance(no, refusal.Refused) and no.code in LATE
        return _page(request, sentence=str(no), status=409 if is_late else 422)
    return redirect("kill")


def _page(request: HttpRequest, *, sentence: str = "", status: int = 200) -> HttpResponse:
    shown = {
        "nav": "kill",
        "boards": kill_switch.boards(access.person(request)),
        "sentence": sentence,
        "given": request.POST,
    }
    return render(request, "kill/page.html", shown, status=status)
