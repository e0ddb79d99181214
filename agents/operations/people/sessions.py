"""End a person's sessions: each of their browsers is signed out at its next request."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.models import Role, Session, Workspace
from agents.models.record import Entry, append_events
from agents.operations.people.workspaces import find_part, lock_workspaces_of
from agents.shell.refusal import Refused, require_member


def end_sessions(
    *, workspace: Workspace, user: User, by: User | None, at: datetime, actor: str = ""
) -> int:
    """End every session of a member, and return their number. Raises Refused.

    `by` is an admin, perhaps the member; None: a command's `actor` is recorded. Live streams check
    their session every OPSCONSOLE_LIVE_RECHECK_SECONDS.
    """
    with transaction.atomic():
        workspaces = lock_workspaces_of(user)
        if by is not None:
            require_member(workspace, by, Role.ADMIN)
        name = find_part(workspace, user).user.get_username()
        count = forget_sessions(user, workspaces, at=at, actor=by.get_username() if by else actor)
        if not count:
            raise Refused("no_sessions", f"{name} is not signed in anywhere.")
        return count


def forget_sessions(
    user: User, workspaces: Collection[Workspace], *, at: datetime, actor: str
) -> int:
    """End a person's sessions, and record that in their workspaces, which must be locked."""
    there = Session.objects.filter(user=user)
    count = there.filter(expire_date__gt=at).count()
    there.delete()
    said = Entry("sessions.ended", {"user": user.get_username(), "count": count}, actor)
    for workspace in workspaces if count else ():
        append_events([said], workspace_id=workspace.pk, at=at)
    return count
