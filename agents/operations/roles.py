"""Who may do what in a workspace: somebody joins, gets another role, or another limit."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.core.requests import Json
from agents.models import DECIDES, Membership, Role, Workspace
from agents.operations.people import add_member, find_part, lock_people
from agents.operations.refusal import Refused


def join(
    *,
    workspace: Workspace,
    user: User,
    role: Role,
    at: datetime,
    desk_limits: Json = None,
    actor: str = "",
) -> Membership:
    """Give somebody their first role in a workspace. Raises Refused."""
    with transaction.atomic():
        lock_people(workspace, None)
        found = Membership.objects.filter(workspace=workspace, user=user).first()
        if found:
            raise Refused(
                "member",
                f"{user.get_username()} is {found.role} in {workspace.name} already: "
                "change the role or the limit instead.",
            )
        return _put(workspace, user, role, desk_limits or {}, at, actor)


def set_role(
    *,
    workspace: Workspace,
    user: User,
    role: Role,
    at: datetime,
    by: User | None = None,
    actor: str = "",
) -> Membership:
    """Give a member another role; a limit goes with a role that decides. Raises Refused.

    `by` is the admin who does; without one it is a command's `actor`.
    """
    with transaction.atomic():
        actor = lock_people(workspace, by, user) or actor
        part = find_part(workspace, user)
        admins = Membership.objects.filter(workspace=workspace, role=Role.ADMIN)
        others = admins.filter(user__is_active=True, is_simulated=False).exclude(pk=part.pk)
        if part.role == Role.ADMIN and role is not Role.ADMIN and not others:
            raise Refused(
                "last_admin",
                f"{user.get_username()} is the only admin of {workspace.name}: make another one "
                "first, or nobody can press its kill switch.",
            )
        limits = part.desk_limits if role in DECIDES else {}
        return _put(workspace, user, role, limits, at, actor)


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
    """Let a reviewer grant a desk's calls up to an amount of a currency. Raises Refused.

    None takes the limit away: then they grant any amount, but nothing in this currency while
    another one stays limited at the desk.
    """
    with transaction.atomic():
        actor = lock_people(workspace, by, user) or actor
        part = find_part(workspace, user)
        own = {**part.desk_limits.get(desk, {}), currency: limit_minor}
        left = {name: most for name, most in own.items() if most is not None}
        limits = {**part.desk_limits, desk: left}
        kept = {name: most for name, most in limits.items() if most}
        return _put(workspace, user, Role(part.role), kept, at, actor)


def _put(
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
