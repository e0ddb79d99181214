"""Invitations: an admin's form, and the page behind an invitation's link."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents.core.requests import Json
from agents.models import Invitation, Membership, Role
from agents.operations.people import inviting
from agents.shell import access, refusal
from agents.shell.pages import BadForm, action, only
from agents.web.members import forms, people, views


@action
def invitation_send(request: HttpRequest) -> HttpResponse:
    """Send a link to an address; the answer does not reveal whether a user has it."""
    user = access.person(request)
    workspace = access.workspace_to_staff(user, request.POST.get("workspace", ""))
    try:
        given = forms.read_invitation(request.POST, workspace)
        inviting.invite(workspace=workspace, by=user, at=timezone.now(), **given)
    except (BadForm, refusal.Refused) as no:
        return views.show_refusal(request, workspace, no)
    return redirect(f"{reverse('members')}?{urlencode({'workspace': workspace.slug})}#invitations")


@action
def invitation_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke an invitation."""
    user = access.person(request)
    made = access.invitation_to_revoke(user, pk)
    try:
        inviting.revoke_invitation(invitation=made, by=user, at=timezone.now())
    except refusal.Refused as no:
        return views.show_refusal(request, made.workspace, no)
    slug = urlencode({"workspace": made.workspace.slug})
    return redirect(f"{reverse('members')}?{slug}#invitations")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Let the holder of the link join: with a new user or the one signed in."""
    made = inviting.invitation_of(token, at=timezone.now())
    if made is None or request.method != "POST":
        return _invitation(request, made)
    try:
        only(request.POST, {"csrfmiddlewaretoken", "as", "name", "password"})
        if request.POST.get("as") == "me" and isinstance(request.user, User):
            inviting.accept_as(invitation=made, user=request.user, at=timezone.now())
            return redirect("home")
        inviting.accept_anew(
            invitation=made,
            name=request.POST.get("name", ""),
            password=request.POST.get("password", ""),
            at=timezone.now(),
        )
    except (BadForm, refusal.Refused) as no:
        return _invitation(request, made, sentence=str(no), status=422)
    return redirect(f"{reverse('sign-in')}?joined=1")


def _invitation(
    request: HttpRequest, made: Invitation | None, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    shown: Json = {"made": made, "sentence": sentence, "name": request.POST.get("name", "")}
    if made:
        user = request.user if isinstance(request.user, User) else None
        mine = Membership.objects.filter(workspace=made.workspace, user=user).first()
        shown |= {"part": mine, "may": people.ROLES[Role(made.role)]}
    return render(request, "members/invitation.html", shown, status=status if made else 404)
