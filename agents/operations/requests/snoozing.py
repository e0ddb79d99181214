"""Hide a request from one's own views for a while; its clock runs on, and others see it."""

from __future__ import annotations

from datetime import UTC, datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.models import Escalation, Snooze
from agents.operations.requests.claiming import lock_open, tell_of
from agents.shell.refusal import Refused, time_here


def deadline_of(escalation: Escalation, *, at: datetime) -> datetime:
    """Return when a request expires, at the earliest if a kill switch stops its clock."""
    left = escalation.expires_at - (escalation.frozen_at or at)
    return at + left


def snooze(*, escalation_id: int, by: User, until: datetime, at: datetime) -> Snooze:
    """Snooze a request until a time before its deadline, or change that time. Raises Refused.

    The person's own claim ends.
    """
    with transaction.atomic():
        found = lock_open(escalation_id, by, at=at)
        deadline = deadline_of(found, at=at)
        if not at < until < deadline:
            raise Refused(
                "bad_snooze",
                f"Choose a time from now on and before the deadline, {time_here(deadline)}.",
            )
        made, _ = Snooze.objects.update_or_create(
            escalation=found, user=by, defaults={"until": until}
        )
        if found.claimed_by == by:
            found.claimed_by = found.claimed_until = None
            found.save(update_fields=["claimed_by", "claimed_until"])
        tell_of(found, "escalation.snoozed", by, at, until=until.astimezone(UTC).isoformat())
        return made


def wake(*, escalation_id: int, by: User, at: datetime) -> None:
    """End one's own snooze of a request. Raises Refused."""
    with transaction.atomic():
        found = lock_open(escalation_id, by, at=at)
        if Snooze.objects.filter(escalation=found, user=by).delete()[0]:
            tell_of(found, "escalation.woken", by, at)
