"""Unreachable model servers: what pages show about them, and a button to try them now."""

from collections.abc import Sequence
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from agents.core.requests import RunState
from agents.engine.turns.asking import wake_runs
from agents.models import Endpoint, Membership, Role, Run
from agents.models.record import Entry, append_events
from agents.shell.refusal import Refused


def outage_for(
    parts: Sequence[Membership], failing: Sequence[Endpoint]
) -> dict[str, object] | None:
    """Return the failing servers to show: all if runs wait, else only those resting.

    None if no run waits and no server rests.
    """
    mine = [part.workspace_id for part in parts]
    queued = Run.objects.filter(workspace__in=mine, state=RunState.QUEUED, wake_at__gt=Now())
    waiting, now = queued.count(), timezone.now()
    shown = [e for e in failing if waiting or (e.rests_until and e.rests_until > now)]
    shown.sort(key=lambda e: (e.rests_until is None, e.rests_until or now, e.address))
    if not shown:
        return None
    may_try = any(part.role in _TRIES for part in parts)
    return {"endpoints": shown, "waiting": waiting, "may_try": may_try}


def outage_of_run() -> dict[str, object] | None:
    """Return the outage that a run may be waiting for, for its page."""
    endpoints = list(Endpoint.objects.failing())
    return {"endpoints": endpoints, "waiting": 1} if endpoints else None


# Try the model servers now instead of waiting for the end of their rests.


_TRIES = (Role.OPERATOR, Role.ADMIN)


def try_models(*, by: User, at: datetime) -> int:
    """End every rest, and wake the waiting runs where `by` is an operator. Return their number.

    The first run makes the probe for all. Raises Refused.
    """
    parts = Membership.objects.filter(user=by, role__in=_TRIES, user__is_active=True)
    mine = list(parts.order_by("workspace_id").values_list("workspace_id", flat=True))
    if not mine:
        raise Refused(
            "not_permitted", "Only operators and admins can make runs try the model again."
        )
    Endpoint.end_rests()
    return sum(_wake(workspace_id, by, at) for workspace_id in mine)


def _wake(workspace_id: int, by: User, at: datetime) -> int:
    with transaction.atomic():
        woken = wake_runs(Run.objects.filter(workspace=workspace_id))
        entry = Entry("models.tried", {"woken": woken}, by.get_username())
        append_events([entry], workspace_id=workspace_id, at=at)
        return woken
