"""What one person may grant: up to their limit on a resource, and up to the cap of a day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet, Sum

from agents.core.days import utc_midnight
from agents.core.limits import BY_REVIEWER
from agents.core.money import format_money
from agents.core.terms import Terms
from agents.models import Escalation, Membership

HIGHER, ANOTHER = "a reviewer with a higher limit", "another reviewer"


@dataclass(frozen=True)
class Bound:
    """The most that something allows, and the sentence for whoever wants more."""

    most_minor: int
    code: str
    sentence: str


def own_bounds(
    escalation: Escalation, person: Membership, terms: Terms, *, at: datetime
) -> list[Bound]:
    """Return what the person's own limits leave of an amount: on its resource, and today.

    Of a tool that names no resource it is the subject. An approval that came to nothing does not
    count. Call with the workspace locked to decide.
    """
    run, limits, currency = escalation.run, escalation.run.limits, terms.currency
    wanted, bounds = format_money(terms.amount_minor or 0, currency), []
    if (limit := person.limit_minor(run.desk, currency)) is not None:
        since = at - timedelta(days=limits.rolling_days)
        same = _granted(escalation, person, currency).filter(
            resource=terms.resource, run__book=run.book_id
        )
        if not terms.resource:  # its tool names none: grants to others are none of it
            same = same.filter(subject_key=terms.subject_key)
        before = _sum(same.filter(decided_at__gte=since))
        given = f"With the {format_money(before, currency)} you already granted for this in "
        given += f"{limits.rolling_days} days, "
        above = f"{wanted} is above your own limit of {format_money(limit, currency)}."
        sentence = f"{given}{above}" if before else above
        bounds.append(_own("above_own_limit", limit - before, currency, sentence, HIGHER))
    if (most := limits.caps_of(run.desk).get(currency, {}).get(BY_REVIEWER)) is not None:
        midnight = utc_midnight(at)
        before = _sum(_granted(escalation, person, currency).filter(decided_at__gte=midnight))
        sentence = (
            f"You approved {format_money(before, currency)} today; with {wanted} that is above the "
            f"{format_money(most, currency)} that one person may approve in a day (UTC)."
        )
        bounds.append(_own("above_daily_total", most - before, currency, sentence, ANOTHER))
    return bounds


def _granted(escalation: Escalation, person: Membership, currency: str) -> QuerySet[Escalation]:
    """Return what else the person granted at this desk in this currency, and holds."""
    return Escalation.objects.filter(
        run__desk=escalation.run.desk,
        workspace=escalation.workspace_id,
        currency=currency,
        decided_by=person.user_id,
        granted_minor__isnull=False,
        not_carried_out="",
    ).exclude(pk=escalation.pk)


def _own(code: str, left: int, currency: str, sentence: str, others: str) -> Bound:
    at_most = f"Grant at most {format_money(left, currency)}" if left > 0 else "Reject it"
    return Bound(max(left, 0), code, f"{sentence} {at_most}, or leave it to {others}.")


def _sum(granted: QuerySet[Escalation]) -> int:
    return granted.aggregate(total=Sum("granted_minor"))["total"] or 0
