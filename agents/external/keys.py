"""External agents: their owners, their pause, and their keys."""

import hmac
import re
import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet

from agents.core.json_forms import hash_of_token
from agents.core.requests import Json
from agents.models import LAUNCHES, AgentKey, ExternalAgent, Role, Workspace
from agents.models.record import Entry, append_events
from agents.people.workspaces import check_slug, lock_people
from agents.sdk.desk import DESKS
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
