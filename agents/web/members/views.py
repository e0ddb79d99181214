"""The members page: who may do what, and the forms for changing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from agents.core.requests import Json
from agents.models import Membership, Role, Team, Workspace
from agents.operations.people import roles as people_roles
from agents.operations.people import second_factor, sessions, teams
from agents.publishing.pages import readable_limits
from agents.sdk.desk import DESKS
from agents.shell import access, refusal
from agents.shell.formats import desk_title
from agents.shell.pages import BadForm, action, page, whole_number
from agents.web.members import forms, people

Change: TypeAlias = Callable[[QueryDict, Membership, dict[str, Any]], object]


@page
def members(request: HttpRequest) -> HttpResponse:
    """List the people of a workspace whose record the person may read."""
    return _members(request, _workspace(request))


@page
def member(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one person and, to an admin, the forms for changes."""
    return _member(request, access.member_for(access.person(request), pk))


@action
def member_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Change a person's role, limits or teams, or end their sessions."""
    user = access.person(request)
    part = access.member_to_change(user, pk)
    try:
        change = CHANGES.get(request.POST.get("change", ""))
        if change is None:
            raise BadForm("", "There is no such change. Load the page again.")
        who = {"workspace": part.workspace, "by": user, "at": timezone.now()}
        change(request.POST, part, who)
    except (BadForm, refusal.Refused) as no:
        return _member(request, part, sentence=str(no), status=_status(no))
    if request.POST["change"] == "remove":
        return redirect(f"{reverse('members')}?{urlencode({'workspace': part.workspace.slug})}")
    return redirect("member", part.pk)


@action
def team_add(request: HttpRequest) -> HttpResponse:
    """Create a team; its members are chosen on each person's page."""
    workspace = access.workspace_to_staff(access.person(request), _chosen_slug(request))
    try:
        teams.set_team(
            workspace=workspace,
            by=access.person(request),
            at=timezone.now(),
            **forms.read_new_team(request.POST, workspace),
        )
    except (BadForm, refusal.Refused) as no:
        return show_refusal(request, workspace, no)
    return redirect(f"{reverse('members')}?{urlencode({'workspace': workspace.slug})}")


@action
def require_factor(request: HttpRequest) -> HttpResponse:
    """Set which roles must have a second factor."""
    user = access.person(request)
    workspace = access.workspace_to_staff(user, _chosen_slug(request))
    try:
        roles = forms.read_factor_roles(request.POST)
        second_factor.require_factor(workspace=workspace, by=user, roles=roles, at=timezone.now())
    except (BadForm, refusal.Refused) as no:
        return show_refusal(request, workspace, no)
    return redirect(f"{reverse('members')}?{urlencode({'workspace': workspace.slug})}#factor")


def _set_team(posted: QueryDict, part: Membership, who: dict[str, Any]) -> Team:
    team = forms.read_team(posted, part)
    moves: Mapping[str, dict[str, Any]] = {
        "join": {"add": [part.user]},
        "leave": {"remove": [part.user]},
        "lead": {"lead": part.user},
        "follow": {"has_no_lead": True},
    }
    return teams.set_team(slug=team.slug, **moves[posted.get("change", "")], **who)


CHANGES: Mapping[str, Change] = {
    "role": lambda posted, part, who: people_roles.set_role(
        user=part.user, **forms.read_role(posted, part), **who
    ),
    "limit": lambda posted, part, who: people_roles.set_limit(
        user=part.user, **forms.read_limit(posted, part), **who
    ),
    **dict.fromkeys(("join", "leave", "lead", "follow"), _set_team),
    "reset-factor": lambda posted, part, who: second_factor.reset_factor(user=part.user, **who),
    "remove": lambda posted, part, who: people_roles.remove_member(user=part.user, **who),
    "end-sessions": lambda posted, part, who: sessions.end_sessions(user=part.user, **who),
}


def show_refusal(
    request: HttpRequest, workspace: Workspace, no: BadForm | refusal.Refused
) -> HttpResponse:
    """Show the list with the reason why nothing was changed."""
    return _members(request, workspace, sentence=str(no), status=_status(no))


def _status(no: BadForm | refusal.Refused) -> int:
    return 403 if getattr(no, "code", "") == "not_permitted" else 422


def _chosen_slug(request: HttpRequest) -> str:
    given = request.POST if request.method == "POST" else request.GET
    return given.get("workspace", "")


def _workspace(request: HttpRequest) -> Workspace:
    user = access.person(request)
    access.workspaces_to_audit(user, "the list of members")  # raises if denied
    return access.choose_workspace(_audited_workspaces(user), _chosen_slug(request))


def _audited_workspaces(user: User) -> list[Workspace]:
    return [part.workspace for part in access.parts_of(user) if part.role in access.AUDITS]


def _members(
    request: HttpRequest, workspace: Workspace, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    user, given = access.person(request), request.GET
    role = given.get("role", "")
    # PostgreSQL rejects NUL.
    name, after = (given.get(key, "").replace("\0", "") for key in ("name", "after"))
    narrowed = {"name": name.strip(), "role": role if role in list(Role) else ""}
    found = people.members_page(workspace, **narrowed, after=after)
    query: dict[str, str | int] = {
        "workspace": workspace.slug,
        **{k: v for k, v in narrowed.items() if v},
    }
    may_change = _may_change(user, workspace)
    before = whole_number(given.get("invited", ""))
    invited, earlier = people.open_invitations(workspace, before) if may_change else ([], 0)
    shown: dict[str, Json] = {
        "nav": "members",
        "workspace": workspace,
        "workspaces": _audited_workspaces(user),
        "found": found,
        "given": {name: value for name, value in narrowed.items() if value},
        "older": urlencode({**query, "after": found.after}) if found.after else "",
        "may_change": may_change,
        "invited": invited,
        "earlier": urlencode({**query, "invited": earlier}) if earlier else "",
        "roles": people.role_words(),
        "sentence": sentence,
        "posted": request.POST,
    }
    return render(request, "members/page.html", shown, status=status)


def _may_change(user: User, workspace: Workspace) -> bool:
    return access.membership(user, workspace.pk).role == Role.ADMIN


def _member(
    request: HttpRequest, part: Membership, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    user = access.person(request)
    part = access.member_for(user, part.pk)  # reread, without a refused change
    [shown] = people.read_members(part.workspace, [part])
    limits = readable_limits(part.workspace.policy)
    desks = [name for name in DESKS if limits is None or limits.covers(name)]
    others = Team.objects.filter(workspace=part.workspace).exclude(members=part)
    context: dict[str, Json] = {
        "nav": "members",
        "member": shown,
        "part": part,
        "workspace": part.workspace,
        "is_self": part.user_id == user.pk,
        "may_change": _may_change(user, part.workspace),
        "decides": part.role in access.DECIDES,
        "roles": people.role_words(),
        "desks": [(name, desk_title(name)) for name in desks],
        "other_teams": list(others.order_by("name", "pk")),
        "sentence": sentence,
        "posted": request.POST,
    }
    return render(request, "members/member.html", context, status=status)
