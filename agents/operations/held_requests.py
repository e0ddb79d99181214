"""What somebody holds who decides here no more: requests assigned to them, and their claims."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.models import Escalation, Run, Workspace
from agents.operations.claiming import is_kept_from
from agents.operations.refusal import Refused


def lock_held(workspace: Workspace, user: User) -> set[UUID]:
    """Lock the runs whose requests a person holds: before the workspace, in everyone's order."""
    held = _requests_of(workspace, user).values_list("run", flat=True)
    runs = Run.objects.filter(pk__in=list(held))
    return set(runs.select_for_update().order_by("pk").values_list("pk", flat=True))


def release_held(
    workspace: Workspace, user: User, locked: Collection[UUID], *, at: datetime, actor: str
) -> int:
    """Give back what a person holds, once they decide no more; return how many requests.

    `locked` are the runs of `lock_held`. Raises Refused where more was assigned since.
    """
    requests = list(_requests_of(workspace, user).select_related("run", "step", "claimed_by"))
    if any(one.run_id not in locked for one in requests):
        raise Refused("moved", f"A request has just been handed to {user}. Try again.")
    for one in requests:
        _release(one, user, at=at, actor=actor)
    return len(requests)


def _requests_of(workspace: Workspace, user: User) -> QuerySet[Escalation]:
    open_here = Escalation.objects.filter(workspace=workspace, state=EscalationState.OPEN)
    return open_here.filter(Q(assigned_to=user) | Q(claimed_by=user)).order_by("pk")


def _release(one: Escalation, user: User, *, at: datetime, actor: str) -> None:
    """Give a request back: to another person who has claimed it, or else to everybody."""
    facts: Json = {"escalation": one.pk, "key": one.step.key, "left": user.get_username()}
    kind, others = "escalation.released", one.claimed_by if is_kept_from(one, user, at=at) else None
    if one.assigned_to == user:
        kind, one.assigned_to = "escalation.assigned", others
        facts |= {"to": others.get_username()} if others else {}
    if others is None:  # its claim, if any, is of who left, or ran out
        one.claimed_by = one.claimed_until = None
    one.save(update_fields=["assigned_to", "claimed_by", "claimed_until"])
    one.run.say(kind, at=at, facts=facts, actor=actor)
