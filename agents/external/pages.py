"""The page of external agents: their owners, pause and keys."""

import json
import shlex
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from agents.core.json_forms import args_schema
from agents.core.requests import Json
from agents.external import keys
from agents.external.calls import outcomes_of, with_runs
from agents.models import AgentCall, AgentKey, ExternalAgent, Membership, Role, Workspace
from agents.publishing.pages import readable_limits
from agents.sdk.desk import DESKS, offered
from agents.shell import access, refusal
from agents.shell.formats import desk_title
from agents.shell.listing import Keyset
from agents.shell.pages import BadForm, action, only, page, whole_number

_LASTS = 90  # days, as the form suggests
_CALLS = 50  # on a page
_ADDED = {"csrfmiddlewaretoken", "workspace", "name", "desk", "owner"}
_CHANGED = {"csrfmiddlewaretoken", "change", "days", "key", "owner", "newest"}


@page
def agents(request: HttpRequest) -> HttpResponse:
    """List a workspace's agents, with a form to add one; for owners, their own agents alone."""
    mine = access.workspaces_with_agents(access.person(request))
    return _agents(request, access.choose_workspace(mine, request.GET.get("workspace", "")))


@action
def agent_add(request: HttpRequest) -> HttpResponse:
    user, given = access.person(request), request.POST
    workspace = access.workspace_to(access.ADD_AGENTS, user, given.get("workspace", ""))
    try:
        only(given, _ADDED)
        keys.set_agent(
            workspace=workspace,
            name=given.get("name", ""),
            desk=given.get("desk", ""),
            owner=_owner(workspace, given.get("owner", "")),
            by=user,
            at=timezone.now(),
        )
    except (BadForm, refusal.Refused) as no:
        return _agents(request, workspace, sentence=str(no), status=422)
    return redirect(f"{reverse('agents')}?{urlencode({'workspace': workspace.slug})}")


@page
def agent(request: HttpRequest, pk: int) -> HttpResponse:
    """List an agent's calls and answers, newest first."""
    shown = access.agent_to_change(access.person(request), pk)
    mine = AgentCall.objects.filter(agent=shown, is_end=False)
    listed = Keyset().page(mine, request.GET.get("before", ""), _CALLS)
    calls = with_runs(listed.rows)
    outcomes = zip(calls, outcomes_of(calls), strict=True)
    context = {
        "nav": "agents",
        "agent": shown,
        "desk": desk_title(shown.desk),
        "calls": [(call.row, call.run, outcome) for call, outcome in outcomes],
        "called": listed.rows[0] if listed.rows else None,
        "older": listed.older,
    }
    return render(request, "agents/detail.html", context)


@action
def agent_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Pause or resume an agent, change its owner, or create or revoke a key."""
    agent, given = access.agent_to_change(access.person(request), pk), request.POST
    who: dict[str, Any] = {"by": access.person(request), "at": timezone.now()}
    change, workspace, token = given.get("change", ""), agent.workspace, ""
    try:
        only(given, _CHANGED)
        if change in ("pause", "resume"):
            is_paused = change == "pause"
            keys.set_agent(workspace=workspace, name=agent.name, is_paused=is_paused, **who)
        elif change == "owner":
            owner = _owner(workspace, given.get("owner", ""))
            keys.set_agent(workspace=workspace, name=agent.name, owner=owner, **who)
        elif change == "key":
            _check_newest(agent, given)
            lasts = timedelta(days=min(whole_number(given.get("days", "")) or 0, 10_000))
            _, token = keys.make_key(home=agent, lasts=lasts, **who)
        elif change == "revoke":
            keys.revoke_key(home=agent, prefix=given.get("key", "").replace("\0", ""), **who)
        else:
            raise BadForm("", "There is no such change. Load the page again.")
    except (BadForm, refusal.Refused) as no:
        return _agents(request, workspace, sentence=str(no), status=422)
    if token:
        return _agents(request, workspace, fresh=_fresh(agent, token))
    return redirect(f"{reverse('agents')}?{urlencode({'workspace': workspace.slug})}")


@action
def workspace_key(request: HttpRequest) -> HttpResponse:
    """Create a key that reads a workspace, or revoke one."""
    user, given = access.person(request), request.POST
    workspace = access.workspace_to(access.ADD_AGENTS, user, given.get("workspace", ""))
    who: dict[str, Any] = {"by": user, "at": timezone.now(), "home": workspace}
    try:
        only(given, {"csrfmiddlewaretoken", "workspace", "change", "key", "newest"})
        if given.get("change") == "key":
            _check_newest(workspace, given)
            _, token = keys.make_key(lasts=timedelta(days=_LASTS), **who)
            return _agents(request, workspace, fresh={"name": workspace.name, "token": token})
        keys.revoke_key(prefix=given.get("key", "").replace("\0", ""), **who)
    except (BadForm, refusal.Refused) as no:
        return _agents(request, workspace, sentence=str(no), status=422)
    return redirect(f"{reverse('agents')}?{urlencode({'workspace': workspace.slug})}")


def _check_newest(home: ExternalAgent | Workspace, given: QueryDict) -> None:
    """Refuse a form sent twice, as by a reload. Raises BadForm.

    The form names the newest key that it shows; a new key's token is only in one answer.
    """
    newest = _valid_keys().filter(pk__in=home.keys.all()).last()
    if given.get("newest", "") != (newest.prefix if newest else ""):
        raise BadForm("", "A key was made since this page was loaded. A key is shown only once.")


def _valid_keys() -> QuerySet[AgentKey]:
    return AgentKey.objects.filter(revoked_at=None, expires_at__gt=timezone.now()).order_by("pk")


def _fresh(agent: ExternalAgent, token: str) -> dict[str, Json]:
    """Return a new key of an agent with example requests, quoted for a shell.

    They open a session and call a read tool that needs only the subject.
    """
    desk = DESKS[agent.desk]
    known = desk.subject.first(agent.workspace.book_id, 1) if desk.subject.first else ()
    key = desk.subject.key_in(known[0]) if known else ""
    session = {"reference": "first-try", "goal": "Try the connection.", "subject": key}
    look: dict[str, Json] = {}
    for name, tool in desk.tools.items():
        schema = args_schema(tool.spec)
        if not look and not tool.writes and schema["required"] == [tool.subject]:
            is_number = schema["properties"][tool.subject].get("type") == "integer"
            given = int(key) if is_number and key.isdigit() else key
            look = {"tool": name, "arguments": {tool.subject: given}}
    called = AgentCall.objects.filter(agent=agent, is_end=False).order_by("-pk").first()
    opening, quoted = (shlex.quote(json.dumps(one)) if one else "" for one in (session, look))
    first = {"opening": opening, "look": quoted, "called": called}
    return {"name": agent.name, "token": token, "agent": agent, **first}


def _owner(workspace: Workspace, name: str) -> User:
    """Return a member by name. Raises BadForm."""
    member = _may_own(workspace).filter(user__username=name.replace("\0", "")).first()
    if member is None:
        raise BadForm("owner", "Choose who answers for the agent: an operator or an admin.")
    return member.user


def _may_own(workspace: Workspace) -> Any:
    members = Membership.objects.filter(workspace=workspace, role__in=access.LAUNCHES)
    return members.filter(is_simulated=False).select_related("user").order_by("user__username")


def _agents(
    request: HttpRequest,
    workspace: Workspace,
    *,
    sentence: str = "",
    fresh: dict[str, Json] | None = None,
    status: int = 200,
) -> HttpResponse:
    valid, user = _valid_keys(), access.person(request)
    agents = access.agents_in(user, workspace).select_related("owner")
    is_admin = access.membership(user, workspace.pk).role == Role.ADMIN
    limits = readable_limits(workspace.policy)
    desks = [name for name in offered() if limits is None or limits.covers(name)]
    shown: dict[str, Json] = {
        "nav": "agents",
        "workspace": workspace,
        "is_admin": is_admin,
        "workspaces": access.workspaces_with_agents(user),
        "rows": [
            (agent, desk_title(agent.desk), agent.valid_keys)
            for agent in agents.prefetch_related(
                Prefetch("keys", queryset=valid, to_attr="valid_keys")
            ).order_by("name")
        ],
        "desks": [(name, desk_title(name)) for name in desks],
        "owners": [part.user.get_username() for part in _may_own(workspace)],
        "keys": list(valid.filter(workspace=workspace)) if is_admin else [],
        "fresh": fresh,
        "site": request.build_absolute_uri("/").rstrip("/"),
        "lasts": _LASTS,
        "most": keys.KEYS,
        "given": request.POST,
        "sentence": sentence,
    }
    return render(request, "agents/page.html", shown, status=status)
