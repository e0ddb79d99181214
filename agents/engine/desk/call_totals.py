"""What the calls of a tool add up to, for the facts of declared desks.

Calls under way or of unknown outcome count as done. Books are separate: a demo launch sees only
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple

from django.db.models import Count, Max, QuerySet, Sum

from agents.core.states import MAYBE_DONE
from agents.db.compiled import CompiledSelect, Param
from agents.models import Effect
from agents.sdk.fact_sources import By

_WHOSE: Mapping[str, Mapping[str, str]] = {
    "book": {"run__book": "book"},
    "subject": {"run__book": "book", "subject_key": "subject"},
    "resource": {"run__book": "book", "resource": "resource"},
    "launcher": {"run__workspace": "workspace", "run__launched_by": "launcher"},
    "workspace": {"run__workspace": "workspace"},
}


class CallTotal(NamedTuple):
    """The calls in one currency, or of none."""

    currency: str
    calls: int
    moved_minor: int | None
    newest_at: datetime


def calls_of(
    by: By | Literal["book"], *, unattended: bool, given: Mapping[str, Any]
) -> QuerySet[Effect]:
    """Return the query for a tool's calls since a time; see `_WHOSE` for what is `given`."""
    return Effect.objects.filter(
        **{column: given[name] for column, name in _WHOSE[by].items()},
        **({"escalation": None} if unattended else {}),
        run__desk=given["desk"],
        tool=given["tool"],
        state__in=MAYBE_DONE,
        intended_at__gte=given["since"],
    )


def totals_of(calls: QuerySet[Effect]) -> QuerySet[Any]:
    """Return the query for what calls add up to: the columns of CallTotal."""
    sums = {"calls": Count("pk"), "moved": Sum("amount_minor"), "newest": Max("intended_at")}
    return calls.order_by().values("currency").annotate(**sums).values_list("currency", *sums)


@cache
def totals_by(by: By, unattended: bool) -> CompiledSelect[Effect]:
    """Return that query for whatever is given, compiled."""
    names = (*_WHOSE[by].values(), "desk", "tool", "since")
    places = {name: Param(name) for name in names}
    return CompiledSelect(lambda: totals_of(calls_of(by, unattended=unattended, given=places)))
