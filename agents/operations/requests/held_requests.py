"""Requests assigned to or claimed by a person who may no longer decide here."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.engine.people.deciders import is_kept_from
from agents.models import Escalation, Run, Workspace
from agents.shell.refusal import Refused


def lock_held(workspace: Workspace, user: User) -> set[UUID]:
    """Lock the runs of a person's held requests: before the workspace, in the usual order."""
    held = _requests_of(workspace, user).values_list("run", flat=True)
    runs = Run.objects.filter(pk__in=list(held))
    return set(runs.select_for_update().order_by("pk").values_list("pk", flat=True))


def release_held(
    workspace: Workspace, user: User, locked: Collection[UUID], *, at: datetime, actor: str
) -> int:
    """Release a person's held requests once they may no longer decide. Return their number.

    `locked` are the runs of `lock_held`. Raises Refused if more were assigned since.
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
    """Release a request to another person who has claimed it, or else to everybody."""
    facts: Json = {"escalation": one.pk, "key": one.step.key, "left": user.get_username()}
    kind, others = "escalation.released", one.claimed_by if is_kept_from(one, user, at=at) else None
    if one.assigned_to == user:
        kind, one.assigned_to = "escalation.assigned", others
        facts |= {"to": others.get_username()} if others else {}
    if others is None:  # any claim is the leaving person's or has expired
        one.claimed_by = one.claimed_until = None
    one.save(update_fields=["assigned_to", "claimed_by", "claimed_until"])
    one.run.say(kind, at=at, facts=facts, actor=actor)
