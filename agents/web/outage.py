"""What pages say of a model's server that runs wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models.functions import Now

from agents.core.states import RunState
from agents.models import Endpoint, Membership
from agents.operations.trying import TRIES
from agents.web import access


@dataclass(frozen=True)
class Outage:
    """The servers that do not answer, and who waits for them."""

    endpoints: Sequence[Endpoint]
    waiting: int  # runs of the person's workspaces
    may_try: bool


def outage_for(user: User) -> Outage | None:
    """Return what does not answer now; None also where nobody waits and no rest goes on."""
    waiting = access.runs_of(user).filter(state=RunState.QUEUED, wake_at__gt=Now()).count()
    endpoints = list(Endpoint.objects.failing() if waiting else Endpoint.objects.resting())
    if not endpoints:
        return None
    may_try = Membership.objects.filter(user=user, role__in=TRIES).exists()
    return Outage(endpoints, waiting, may_try)


def outage_of_run() -> Outage | None:
    """Return what a run may wait for that waits for a time, for whoever reads its page."""
    endpoints = list(Endpoint.objects.failing())
    return Outage(endpoints, waiting=1, may_try=False) if endpoints else None
