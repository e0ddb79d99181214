"""Try the model servers now instead of waiting for the end of their rests."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.engine.runtime.breaker import wake_runs
from agents.models import Endpoint, Membership, Role, Run
from agents.models.record import Entry, append_events
from agents.shell.refusal import Refused

TRIES = (Role.OPERATOR, Role.ADMIN)


def try_models(*, by: User, at: datetime) -> int:
    """End every rest, and wake the waiting runs where `by` is an operator. Return their number.

    The first run makes the probe for all. Raises Refused.
    """
    parts = Membership.objects.filter(user=by, role__in=TRIES, user__is_active=True)
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
        said = Entry("models.tried", {"woken": woken}, by.get_username())
        append_events([said], workspace_id=workspace_id, at=at)
        return woken
