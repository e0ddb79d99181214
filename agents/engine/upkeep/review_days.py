"""Sum how requests were decided: days that are over once, by the sweep, the rest when asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import F, Max
from django.db.models.fields.json import KT

from agents.core.review_figures import Closed, ReviewFigures
from agents.core.states import EscalationState
from agents.models import Escalation, ReviewDay, Workspace

GRACE = timedelta(hours=1)  # after midnight, in which decisions of the day are still written
DAY = timedelta(days=1)


def sum_next_review_day(*, at: datetime) -> int:
    """Sum the first day that is over and not summed yet. Return how many rows that made.

    Every day has a row in every workspace, or it would be looked at for ever. Another worker may
    have been quicker; it summed the same.
    """
    begin = summed_until()
    if begin is None:
        first = Escalation.objects.order_by("pk").values_list("created_at", flat=True).first()
        if first is None:
            return 0
        begin = _midnight(first.astimezone(UTC).date())
    end = begin + DAY
    late = Escalation.objects.filter(state=EscalationState.OPEN, expires_at__lt=end, frozen_at=None)
    if end + GRACE > at or late.exists():  # the sweep has yet to close some of the day
        return 0
    rows = []
    for workspace in Workspace.objects.order_by("pk"):
        sums = sum_closed(closed_between(workspace.pk, begin, end))
        sums.setdefault(("", None), ReviewFigures())
        rows += [
            ReviewDay(
                workspace=workspace,
                day=begin.date(),
                rule=rule,
                user_id=user,
                figures=one.as_json(),
            )
            for (rule, user), one in sums.items()
        ]
    return len(ReviewDay.objects.bulk_create(rows, ignore_conflicts=True))


def summed_until() -> datetime | None:
    """Return where the first day begins that is not summed; None: no day is."""
    newest = ReviewDay.objects.aggregate(newest=Max("day"))["newest"]
    return _midnight(newest) + DAY if newest else None


def sum_closed(closed: Iterable[Closed]) -> dict[tuple[str, int | None], ReviewFigures]:
    """Return the sums of each rule, as (rule, None), and of each person, as ("", their key)."""
    found: dict[tuple[str, int | None], ReviewFigures] = defaultdict(ReviewFigures)
    for one in closed:
        found[one.rule, None].add(one)
        if one.by is not None:
            found["", one.by].add(one)
    return dict(found)


def closed_between(workspace: int, begin: datetime, end: datetime) -> Iterator[Closed]:
    """Yield what was decided or expired in [begin, end), in two questions, each by an index."""
    ours = Escalation.objects.filter(workspace=workspace).order_by()
    decided = ours.filter(decided_at__gte=begin, decided_at__lt=end)
    expired = ours.filter(state=EscalationState.EXPIRED, expires_at__gte=begin, expires_at__lt=end)
    for found, closed in ((decided, "decided_at"), (expired, "expires_at")):
        rows = found.annotate(rule=KT("review__deciding__rule"), closed_at=F(closed))
        columns = ("state", "rule", "decided_by_id", "amount_minor", "granted_minor", "currency")
        for state, rule, *rest in rows.values_list(*columns, "created_at", "closed_at"):
            yield Closed(state, (rule or "")[:100], *rest)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
