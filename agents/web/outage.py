"""What pages say about model servers that runs wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models.functions import Now
from django.utils import timezone

from agents.core.states import RunState
from agents.models import Endpoint, Membership, Run
from agents.operations.runs.trying import TRIES


@dataclass(frozen=True)
class Outage:
    """The servers that do not answer, and the runs that wait for them."""

    endpoints: Sequence[Endpoint]
    waiting: int  # runs of the person's workspaces
    may_try: bool


def outage_for(parts: Sequence[Membership], failing: Sequence[Endpoint]) -> Outage | None:
    """Return the failing servers to show: all if runs wait, else only those resting.

    None if no run waits and no server rests.
    """
    mine = [part.workspace_id for part in parts]
    queued = Run.objects.filter(workspace__in=mine, state=RunState.QUEUED, wake_at__gt=Now())
    waiting, now = queued.count(), timezone.now()
    told = [e for e in failing if waiting or (e.rests_until and e.rests_until > now)]
    told.sort(key=lambda e: (e.rests_until is None, e.rests_until or now, e.address))
    if not told:
        return None
    return Outage(told, waiting, may_try=any(part.role in TRIES for part in parts))


def outage_of_run() -> Outage | None:
    """Return the outage that a run waiting for a time may be waiting for, for its page."""
    endpoints = list(Endpoint.objects.failing())
    return Outage(endpoints, waiting=1, may_try=False) if endpoints else None
