"""Work on a request with others: hand it over, snooze it, comment on it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from agents.models import Escalation, Team
from agents.operations.requests import assigning, claiming, commenting, snoozing
from agents.shell import access, refusal
from agents.shell.pages import BadForm, action, only
from agents.web.approvals.handover import PERIODS
from agents.web.approvals.queue import read_queue
from agents.web.approvals.views import show_card

TOKEN = "csrfmiddlewaretoken"  # noqa: S105 - the name of a field


@action
def hand_over(request: HttpRequest, pk: int) -> HttpResponse:
    """Hand a request to a person, a team or everybody, with a note."""

    def change(one: Escalation, by: User, at: datetime) -> None:
        only(request.POST, {TOKEN, "to", "note"})
        kind, _, name = request.POST.get("to", "").partition(":")
        kind = "" if "\0" in name else kind  # PostgreSQL rejects NUL
        user = User.objects.filter(username=name).first() if kind == "person" else None
        ours = Team.objects.filter(workspace=one.workspace_id, slug=name)
        team = ours.first() if kind == "team" else None
        if user is None and team is None and kind != "everybody":
            raise BadForm("to", "Choose who gets it.")
        note = request.POST.get("note", "")
        assigning.assign(escalation_id=one.pk, by=by, to_user=user, to_team=team, note=note, at=at)

    return _change(request, pk, change)


@action
def snooze(request: HttpRequest, pk: int) -> HttpResponse:
    """Snooze a request for some minutes."""

    def change(one: Escalation, by: User, at: datetime) -> None:
        only(request.POST, {TOKEN, "minutes"})
        minutes = request.POST.get("minutes", "")
        if minutes not in map(str, PERIODS):
            raise BadForm("minutes", "Choose for how long.")
        until = at + timedelta(minutes=int(minutes))
        snoozing.snooze(escalation_id=one.pk, by=by, until=until, at=at)

    return _change(request, pk, change)


@action
def wake(request: HttpRequest, pk: int) -> HttpResponse:
    """End the snooze of a request early."""

    def change(one: Escalation, by: User, at: datetime) -> None:
        only(request.POST, {TOKEN})
        snoozing.wake(escalation_id=one.pk, by=by, at=at)

    return _change(request, pk, change)


@action
def comment(request: HttpRequest, pk: int) -> HttpResponse:
    """Comment on a request, on record."""

    def change(one: Escalation, by: User, at: datetime) -> None:
        only(request.POST, {TOKEN, "text"})
        text = request.POST.get("text", "").replace("\r\n", "\n")
        commenting.comment(escalation_id=one.pk, by=by, text=text, at=at)

    return _change(request, pk, change)


def _change(
    request: HttpRequest, pk: int, change: Callable[[Escalation, User, datetime], None]
) -> HttpResponse:
    """Make a change to a request: 422 for a bad form, 409 if it is not allowed (any more)."""
    user = access.person(request)
    escalation = access.escalation_to_decide(user, pk)
    try:
        change(escalation, user, timezone.now())
    except BadForm as bad:
        return show_card(request, escalation, notice=str(bad), status=422)
    except (claiming.Claimed, refusal.Refused) as no:
        return show_card(request, access.escalation_for(user, pk), notice=str(no), status=409)
    return redirect(read_queue(request.GET).address(pk))
