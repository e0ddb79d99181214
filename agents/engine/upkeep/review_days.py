"""Sum how requests were decided: days that are over once, by the sweep, the rest when asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db.models import F
from django.db.models.fields.json import KT

from agents.core.decisions import Closed, ReviewFigures
from agents.engine.upkeep import day_sums
from agents.models import ReviewDay, Workspace


def sum_next_review_day(*, at: datetime) -> int:
    """Sum the first day that is over and not summed yet. Return how many rows that made.

    Every day has a row in every workspace.
    """
    first = day_sums.summed_until(ReviewDay) or day_sums.first_request()
    day = day_sums.day_to_sum(first, at=at)
    if day is None:
        return 0
    begin, end = day
    rows = []
    for workspace in Workspace.objects.order_by("pk"):
        sums = sum_closed(reviews_between(workspace.pk, begin, end))
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


def sum_closed(closed: Iterable[Closed]) -> dict[tuple[str, int | None], ReviewFigures]:
    """Return the sums of each rule, as (rule, None), and of each person, as ("", their key)."""
    found: dict[tuple[str, int | None], ReviewFigures] = defaultdict(ReviewFigures)
    for one in closed:
        found[one.rule, None].add(one)
        if one.by is not None:
            found["", one.by].add(one)
    return dict(found)


def reviews_between(workspace: int, begin: datetime, end: datetime) -> Iterator[Closed]:
    """Yield what was decided or expired in [begin, end)."""
    both = day_sums.closed_between(begin, end, workspace=workspace)
    for found, closed in zip(both, ("decided_at", "expires_at"), strict=True):
        rows = found.annotate(rule=KT("review__deciding__rule"), closed_at=F(closed))
        columns = ("state", "rule", "decided_by_id", "amount_minor", "granted_minor", "currency")
        for state, rule, *rest in rows.values_list(*columns, "created_at", "closed_at"):
            yield Closed(state, (rule or "")[:100], *rest)
