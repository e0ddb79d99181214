"""What one person may grant: up to their limit on a resource, and up to their daily cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q, QuerySet, Sum, Value

from agents.core.call_target import CallTarget
from agents.core.days import utc_midnight
from agents.core.limits import BY_REVIEWER
from agents.core.money import format_money
from agents.core.states import GRANTED, EscalationState
from agents.engine.desk.repeats import spellings_of
from agents.models import Approval, Escalation, Membership
from agents.sdk.desk import DESKS

HIGHER, ANOTHER = "a reviewer with a higher limit", "another reviewer"


@dataclass(frozen=True)
class Bound:
    """An upper bound, and the sentence that refuses more."""

    most_minor: int
    code: str
    sentence: str


@dataclass(frozen=True)
class _Sum:
    """The grants of a person in one sum: all since a time, or on one resource in one book."""

    since: datetime
    book: int | None = None
    resources: Sequence[str] = ()  # one in all its spellings; none if the tool names none
    subject_key: str = ""

    def counts(self, time: str, request: str) -> Q:
        """Return the condition for a grant to count; `request` is the path to its escalation."""
        found = Q(**{f"{time}__gte": self.since})
        if self.book is None:
            return found
        found &= Q(run__book=self.book)
        if self.resources:
            return found & Q(resource__in=self.resources)
        # If its tool names no resource, grants to other subjects do not count.
        return found & Q(**{"resource": "", f"{request}subject_key": self.subject_key})


def own_bounds(
    escalation: Escalation, person: Membership, target: CallTarget, *, at: datetime
) -> list[Bound]:
    """Return what the person's own limits leave of an amount: on its resource, and today.

    The subject stands in for a resource that the tool does not name. Approvals that were not
    carried out do not count. To decide, call with the workspace locked.
    """
    run, limits, currency = escalation.run, escalation.run.limits, target.currency
    wanted, bounds = format_money(target.amount_minor or 0, currency), []
    limit = person.limit_minor(run.desk, currency)
    most = limits.caps_of(run.desk).get(currency, {}).get(BY_REVIEWER)
    asked: dict[str, _Sum] = {}
    if limit is not None:
        since = at - timedelta(days=limits.rolling_days)
        resources = [target.resource] if target.resource else []
        asked["here"] = _Sum(since, run.book_id, resources, target.subject_key)
    if most is not None:
        asked["today"] = _Sum(utc_midnight(at))
    granted = _granted_sums(escalation, person, currency, asked) if asked else {}
    if limit is not None:
        before = granted["here"]
        given = f"With the {format_money(before, currency)} you already granted for this in "
        given += f"{limits.rolling_days} days, "
        above = f"{wanted} is above your own limit of {format_money(limit, currency)}."
        sentence = f"{given}{above}" if before else above
        bounds.append(_own("above_own_limit", limit - before, currency, sentence, HIGHER))
    if most is not None:
        before = granted["today"]
        sentence = (
            f"You approved {format_money(before, currency)} today; with {wanted} that is above the "
            f"{format_money(most, currency)} that one person may approve in a day (UTC)."
        )
        bounds.append(_own("above_daily_total", most - before, currency, sentence, ANOTHER))
    return bounds


def _granted_sums(
    escalation: Escalation, person: Membership, currency: str, asked: Mapping[str, _Sum]
) -> dict[str, int]:
    """Return what else the person granted at this desk in this currency, by kind of sum.

    A first approval counts while it is valid, and after a second one followed.
    """
    same = {"run__desk": escalation.run.desk, "workspace": escalation.workspace_id}
    same |= {"currency": currency, "not_carried_out": ""}
    since = min(one.since for one in asked.values())
    decided = Escalation.objects.filter(
        **same, decided_by=person.user_id, decided_at__gte=since, granted_minor__isnull=False
    )
    first = Approval.objects.filter(
        **{f"escalation__{name}": value for name, value in same.items()},
        by=person.user_id,
        at__gte=since,
        escalation__approval=F("pk"),
        escalation__state__in=(EscalationState.OPEN, *GRANTED),
    )
    decided, first = decided.exclude(pk=escalation.pk), first.exclude(escalation=escalation.pk)
    if "here" in asked:
        here = _in_all_spellings(asked["here"], escalation, (decided, first))
        asked = {**asked, "here": here}
    alone = _sums(decided, asked, "decided_at")
    of_two = _sums(first, asked, "at", "escalation__")
    rows = list(alone.union(of_two, all=True))
    return {name: sum(row[n] or 0 for row in rows) for n, name in enumerate(asked)}


def _in_all_spellings(
    here: _Sum, escalation: Escalation, grants: tuple[QuerySet[Any], QuerySet[Any]]
) -> _Sum:
    """Return the sum on a resource with the spellings that the resource has in these grants."""
    desk, resource = DESKS.get(escalation.run.desk), next(iter(here.resources), "")
    tool = desk.tools.get(escalation.action["name"]) if desk else None
    if tool is None or not tool.has_spellings(resource):
        return here
    of_one, of_two = (
        found.filter(run__book=here.book).order_by().values_list("resource", flat=True)
        for found in grants
    )
    return replace(here, resources=spellings_of(resource, of_one.union(of_two)))


def _sums(
    found: QuerySet[Any], asked: Mapping[str, _Sum], time: str, request: str = ""
) -> QuerySet[Any, Any]:
    """Return a row with a column for each sum over these grants."""
    columns = {
        name: Sum("granted_minor", filter=one.counts(time, request)) for name, one in asked.items()
    }
    return found.order_by().values(whole=Value(1)).annotate(**columns).values_list(*columns)


def _own(code: str, left: int, currency: str, sentence: str, others: str) -> Bound:
    at_most = f"Grant at most {format_money(left, currency)}" if left > 0 else "Reject it"
    return Bound(max(left, 0), code, f"{sentence} {at_most}, or hand it over to {others}.")
