"""Sessions that an admin ends: each browser of a person is out at its next request."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.models import Role, Session, Workspace
from agents.models.event import Entry, append_events
from agents.operations.people import find_part
from agents.operations.refusal import Refused, require_member


def end_sessions(
    *, workspace: Workspace, user: User, by: User | None, at: datetime, actor: str = ""
) -> int:
    """End every session of a member, and return how many there were. Raises Refused.

    `by` is an admin, maybe of themselves; None: a command's `actor`. A live stream looks for its
    session every OPSCONSOLE_LIVE_RECHECK_SECONDS.
    """
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        if by is not None:
            require_member(workspace, by, Role.ADMIN)
        name = find_part(workspace, user).user.get_username()
        there = Session.objects.filter(user=user)
        count = there.filter(expire_date__gt=at).count()
        there.delete()
        if not count:
            raise Refused("no_sessions", f"{name} is not signed in anywhere.")
        facts = {"user": name, "count": count}
        said = Entry("sessions.ended", facts, by.get_username() if by else actor)
        append_events([said], workspace_id=workspace.pk, at=at)
        return count
