"""Who may do what in a workspace: people join, get another role or limit, or leave."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from agents.core.requests import Json
from agents.engine.upkeep.expired_invitations import revoke_invitations_of
from agents.models import DECIDES, Membership, Role, Team, Workspace
from agents.models.record import Entry, append_events
from agents.operations.people.sessions import forget_sessions
from agents.operations.people.teams import set_team
from agents.operations.people.workspaces import (
    add_member,
    find_part,
    lock_people,
    lock_workspaces_of,
)
from agents.operations.requests.held_requests import lock_held, release_held
from agents.shell.refusal import Refused


def join(
    *,
    workspace: Workspace,
    user: User,
    role: Role,
    at: datetime,
    desk_limits: Json = None,
    actor: str = "",
) -> Membership:
    """Give a person their first role in a workspace. Raises Refused."""
    with transaction.atomic():
        lock_people(workspace, None)
        found = Membership.objects.filter(workspace=workspace, user=user).first()
        if found:
            raise Refused(
                "member",
                f"{user.get_username()} has the role {found.role} in {workspace.name} already: "
                "change the role or the limit instead.",
            )
        return _put_membership(workspace, user, role, desk_limits or {}, at, actor)


def set_role(
    *,
    workspace: Workspace,
    user: User,
    role: Role,
    at: datetime,
    by: User | None = None,
    actor: str = "",
) -> Membership:
    """Change a member's role; limits and held requests need one that decides. Raises Refused.

    Invitations that they sent end unless they stay an admin.
    `by` is the acting admin; without one, a command's `actor` is recorded.
    """
    decides = role in DECIDES
    with transaction.atomic():
        held = set() if decides else lock_held(workspace, user)
        actor = lock_people(workspace, by, user) or actor
        part = find_part(workspace, user)
        if role is not Role.ADMIN:
            _keep_an_admin(part)
            revoke_invitations_of(user, workspace, at=at, actor=actor)
        put = _put_membership(workspace, user, role, part.desk_limits if decides else {}, at, actor)
        if not decides:
            release_held(workspace, user, held, at=at, actor=actor)
        return put


def remove_member(
    *, workspace: Workspace, user: User, at: datetime, by: User | None = None, actor: str = ""
) -> int:
    """Remove a person from a workspace. Return how many requests they held. Raises Refused.

    These are released, teams lose the person, and their sessions end. Their decisions, runs and
    saved views stay. `by` is the acting admin; without one, a command's `actor` is recorded.
    """
    with transaction.atomic():
        held = lock_held(workspace, user)
        workspaces = lock_workspaces_of(user)
        actor = lock_people(workspace, by, user) or actor
        part = find_part(workspace, user)
        _keep_an_admin(part)
        revoke_invitations_of(user, workspace, at=at, actor=actor)
        teams = Team.objects.filter(Q(members=part) | Q(lead=part), workspace=workspace)
        for slug in sorted(set(teams.values_list("slug", flat=True))):
            set_team(workspace=workspace, slug=slug, remove=[user], at=at, actor=actor)
        forget_sessions(user, workspaces, at=at, actor=actor)
        part.delete()
        count = release_held(workspace, user, held, at=at, actor=actor)
        facts = {"user": user.get_username(), "role": part.role, "requests": count}
        append_events([Entry("member.removed", facts, actor)], workspace_id=workspace.pk, at=at)
        return count


def _keep_an_admin(part: Membership) -> None:
    """Refuse to remove the last admin who can sign in. Raises Refused."""
    admins = Membership.objects.filter(workspace=part.workspace, role=Role.ADMIN)
    others = admins.filter(user__is_active=True, is_simulated=False).exclude(pk=part.pk)
    if part.role == Role.ADMIN and not others:
        raise Refused(
            "last_admin",
            f"{part.user.get_username()} is the only admin of {part.workspace.name}: make another "
            "one first, or nobody can press its kill switch.",
        )


def set_limit(
    *,
    workspace: Workspace,
    user: User,
    desk: str,
    currency: str,
    limit_minor: int | None,
    at: datetime,
    by: User | None = None,
    actor: str = "",
) -> Membership:
    """Set a reviewer's limit at a desk in a currency, in minor units. Raises Refused.

    None removes the limit: then they may grant any amount or, while another currency is limited at
    the desk, nothing in this one.
    """
    with transaction.atomic():
        actor = lock_people(workspace, by, user) or actor
        part = find_part(workspace, user)
        own = {**part.desk_limits.get(desk, {}), currency: limit_minor}
        left = {name: most for name, most in own.items() if most is not None}
        limits = {**part.desk_limits, desk: left}
        kept = {name: most for name, most in limits.items() if most}
        return _put_membership(workspace, user, Role(part.role), kept, at, actor)


def _put_membership(
    workspace: Workspace,
    user: User,
    role: Role,
    limits: Json,
    at: datetime,
    actor: str,
) -> Membership:
    if limits and role not in DECIDES:
        raise Refused(
            "decides_nothing",
            f"The role {role} decides nothing, so it has no limit; a reviewer or an admin has.",
        )
    return add_member(
        workspace=workspace, user=user, role=role, desk_limits=limits, at=at, actor=actor
    )
