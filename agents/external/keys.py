"""External agents: their owners, their pause and their keys, and the page that shows them."""

import hmac
import json
import re
import secrets
import shlex
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from agents.core.json_forms import args_schema, hash_of_token
from agents.core.requests import Json
from agents.external.calls import outcomes_of, with_runs
from agents.models import LAUNCHES, AgentCall, AgentKey, ExternalAgent, Membership, Role, Workspace
from agents.models.record import Entry, append_events
from agents.people.workspaces import check_slug, lock_people
from agents.publishing.pages import readable_limits
from agents.sdk.desk import DESKS, offered
from agents.shell import access, refusal
from agents.shell.formats import desk_title
from agents.shell.listing import Keyset
from agents.shell.pages import BadForm, action, only, page, whole_number
from agents.shell.refusal import Refused, require_member

KEYS = 2  # per agent at a time, so that one can replace the other
_LONGEST_LIFE = timedelta(days=366)
_USED_EVERY = timedelta(minutes=1)  # minimum time between two writes of a key's last use
# In the form that secret scanners find: a public prefix, then the secret.
TOKEN = re.compile(r"(opsc_[0-9a-f]{8})_[0-9a-f]{48}")


def set_agent(
    *,
    workspace: Workspace,
    name: str,
    at: datetime,
    desk: str = "",
    owner: User | None = None,
    is_paused: bool | None = None,
    by: User | None = None,
    actor: str = "",
) -> ExternalAgent:
    """Add an agent, or change its owner or pause. Raises Refused.

    A new one needs a desk and an owner who may launch runs; its desk stays. A change of owner
    revokes its keys. `by` is the acting admin; without one, a command's `actor` is recorded.
    """
    with transaction.atomic():
        actor = lock_people(workspace, by) or actor
        agent = ExternalAgent.objects.filter(workspace=workspace, name=name).first()
        if agent is None:
            agent = _new_agent(workspace, name, desk, owner, at)
        elif desk and desk != agent.desk:
            raise Refused("other_desk", f"{name} is of the desk {agent.desk}. Add another agent.")
        if owner:
            require_member(workspace, owner, *LAUNCHES)
            if agent.pk and agent.owner_id != owner.pk:
                _revoke(agent, agent.keys.filter(revoked_at=None), actor, at)
            agent.owner = owner
        if is_paused is not None:
            agent.paused_at = (agent.paused_at or at) if is_paused else None
        agent.save()
        facts: dict[str, Json] = {
            "agent": name,
            "desk": agent.desk,
            "owner": agent.owner.get_username(),
        }
        facts |= {"is_paused": agent.paused_at is not None}
        workspace.say("agent.set", at=at, facts=facts, actor=actor)
        return agent


def _new_agent(
    workspace: Workspace, name: str, desk: str, owner: User | None, at: datetime
) -> ExternalAgent:
    check_slug(name)
    limits = workspace.policy.limits() if workspace.policy else None
    if desk not in DESKS or limits is None or not limits.covers(desk):
        raise Refused("unknown_desk", f"{workspace.name} has no rules for a desk {desk!r}.")
    if owner is None:
        raise Refused("no_owner", "A new agent needs an owner, who answers for what it does.")
    return ExternalAgent(workspace=workspace, name=name, desk=desk, owner=owner, created_at=at)


def make_key(
    *,
    home: ExternalAgent | Workspace,
    lasts: timedelta,
    at: datetime,
    by: User | None = None,
    actor: str = "",
) -> tuple[AgentKey, str]:
    """Create a key of an agent, or one that reads a workspace. Return it with its token.

    The token is not stored. `by` sees it: an admin or, for an agent's key, its owner only. For a
    command, `actor` runs it and sees it. Raises Refused.
    """
    if not timedelta() < lasts <= _LONGEST_LIFE:
        raise Refused("bad_life", f"A key lasts from 1 to {_LONGEST_LIFE.days} days.")
    workspace, agent = _places(home)
    with transaction.atomic():
        actor = _lock_keys(home, by) or actor
        if isinstance(home, ExternalAgent) and by and by.pk != home.owner_id:
            owner = home.owner.get_username()
            raise Refused(
                "not_owner",
                f"Only {owner}, who owns {home.name}, is shown a key of it. Ask {owner} to make "
                "one here, or give the agent another owner, which revokes its keys.",
            )
        if home.keys.filter(revoked_at=None, expires_at__gt=at).count() >= KEYS:
            raise Refused("too_many_keys", f"{home.name} has {KEYS} keys. Revoke one first.")
        prefix = f"opsc_{secrets.token_hex(4)}"
        token = f"{prefix}_{secrets.token_hex(24)}"
        key = home.keys.create(
            prefix=prefix, token_sha256=hash_of_token(token), created_at=at, expires_at=at + lasts
        )
        facts = {"agent": agent, "key": prefix, "token_sha256": key.token_sha256}
        facts |= {"expires_at": key.expires_at.isoformat()}
        workspace.say("agent_key.made", at=at, facts=facts, actor=actor)
        return key, token


def revoke_key(
    *,
    home: ExternalAgent | Workspace,
    prefix: str,
    at: datetime,
    by: User | None = None,
    actor: str = "",
) -> None:
    """Revoke a key at once. Raises Refused."""
    with transaction.atomic():
        actor = _lock_keys(home, by) or actor
        if not _revoke(home, home.keys.filter(prefix=prefix, revoked_at=None), actor, at):
            raise Refused("no_key", f"{home.name} has no key {prefix} that could be revoked.")


def _revoke(
    home: ExternalAgent | Workspace, keys: QuerySet[AgentKey], actor: str, at: datetime
) -> bool:
    """Revoke these keys, on record. Tell whether there are any; the workspace is locked."""
    workspace, agent = _places(home)
    prefixes = list(keys.order_by("pk").values_list("prefix", flat=True))
    keys.update(revoked_at=at)
    events = [Entry("agent_key.revoked", {"agent": agent, "key": one}, actor) for one in prefixes]
    append_events(events, workspace_id=workspace.pk, at=at)
    return bool(prefixes)


def _lock_keys(home: ExternalAgent | Workspace, by: User | None) -> str:
    """Serialise changes to keys. Return the actor's name; "" for None, a command. Raises Refused.

    An agent's owner may change its keys, as an admin may.
    """
    workspace, _ = _places(home)
    if not isinstance(home, ExternalAgent):
        return lock_people(workspace, by)
    lock_people(workspace, None)
    home.refresh_from_db(fields=["owner"])  # may have changed meanwhile
    if by is None:
        return ""
    require_member(workspace, by, *(LAUNCHES if by.pk == home.owner_id else (Role.ADMIN,)))
    return by.get_username()


def _places(home: ExternalAgent | Workspace) -> tuple[Workspace, str]:
    """Return the workspace of a key, and its agent's name; "" for none."""
    return (home, "") if isinstance(home, Workspace) else (home.workspace, home.name)


def key_of(token: str, *, at: datetime) -> AgentKey | None:
    """Return the valid key with this token, and record its use; None if there is none."""
    parts = TOKEN.fullmatch(token)
    if parts is None:
        return None
    known = AgentKey.objects.select_related("agent__workspace", "agent__owner", "workspace")
    key = known.filter(prefix=parts[1], revoked_at=None, expires_at__gt=at).first()
    if key is None or not hmac.compare_digest(key.token_sha256, hash_of_token(token)):
        return None
    stale = Q(used_at=None) | Q(used_at__lt=at - _USED_EVERY)
    if key.used_at is None or key.used_at < at - _USED_EVERY:
        AgentKey.objects.filter(stale, pk=key.pk).update(used_at=at)
    return key


def agent_of(token: str, *, at: datetime) -> ExternalAgent | None:
    """Return the agent of a valid token; None for any other text."""
    key = key_of(token, at=at)
    if key is None or key.agent is None:
        return None
    key.agent.key_prefix = key.prefix
    return key.agent


# The page of external agents: their owners, pause and keys.


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
        set_agent(
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
            set_agent(workspace=workspace, name=agent.name, is_paused=is_paused, **who)
        elif change == "owner":
            owner = _owner(workspace, given.get("owner", ""))
            set_agent(workspace=workspace, name=agent.name, owner=owner, **who)
        elif change == "key":
            _check_newest(agent, given)
            lasts = timedelta(days=min(whole_number(given.get("days", "")) or 0, 10_000))
            _, token = make_key(home=agent, lasts=lasts, **who)
        elif change == "revoke":
            revoke_key(home=agent, prefix=given.get("key", "").replace("\0", ""), **who)
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
            _, token = make_key(lasts=timedelta(days=_LASTS), **who)
            return _agents(request, workspace, fresh={"name": workspace.name, "token": token})
        revoke_key(prefix=given.get("key", "").replace("\0", ""), **who)
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
        "most": KEYS,
        "given": request.POST,
        "sentence": sentence,
    }
    return render(request, "agents/page.html", shown, status=status)
