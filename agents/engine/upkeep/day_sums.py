"""Which past day a table of daily sums lacks next, and what was closed on a day.

The sweep sums each past day once. Every day gets a row, or it would be summed for ever. If another
worker was quicker, its sums are the same.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.db.models import Max, Model, QuerySet

from agents.core.money import day_begun_at, utc_midnight
from agents.core.states import EscalationState
from agents.models import Escalation

DAY = timedelta(days=1)
GRACE = timedelta(hours=1)  # after midnight, while the last rows of the day are still written


def summed_until(model: type[Model]) -> datetime | None:
    """Return when the first day begins that a table lacks; None: it has no day."""
    newest: date | None = model._default_manager.aggregate(newest=Max("day"))["newest"]
    return day_begun_at(newest) + DAY if newest else None


def day_to_sum(begin: datetime | None, *, at: datetime) -> tuple[datetime, datetime] | None:
    """Return begin and end of a day if all its rows are there; None: there is none, or not yet."""
    if begin is None:
        return None
    begin = utc_midnight(begin)
    end = begin + DAY
    late = Escalation.objects.filter(state=EscalationState.OPEN, expires_at__lt=end, frozen_at=None)
    return None if end + GRACE > at or late.exists() else (begin, end)


def first_request() -> datetime | None:
    """Return when the first request was opened."""
    return Escalation.objects.order_by("pk").values_list("created_at", flat=True).first()


def closed_between(
    begin: datetime, end: datetime, **of: object
) -> tuple[QuerySet[Escalation], QuerySet[Escalation]]:
    """Return the requests decided and those expired in [begin, end), each by an index."""
    ours = Escalation.objects.filter(**of).order_by()
    return (
        ours.filter(decided_at__gte=begin, decided_at__lt=end),
        ours.filter(state=EscalationState.EXPIRED, expires_at__gte=begin, expires_at__lt=end),
    )
