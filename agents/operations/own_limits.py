"""What one person may grant: up to their limit on a resource, and up to the cap of a day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Sum

from agents.core.days import utc_midnight
from agents.core.limits import BY_REVIEWER
from agents.core.money import format_money
from agents.core.states import GRANTED, EscalationState
from agents.core.terms import Terms
from agents.models import Approval, Escalation, Membership

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
        about = {"resource": terms.resource}
        if not terms.resource:  # its tool names none: grants to others are none of it
            about["subject_key"] = terms.subject_key
        since = at - timedelta(days=limits.rolling_days)
        before = _granted(escalation, person, currency, since, book=run.book_id, **about)
        given = f"With the {format_money(before, currency)} you already granted for this in "
        given += f"{limits.rolling_days} days, "
        above = f"{wanted} is above your own limit of {format_money(limit, currency)}."
        sentence = f"{given}{above}" if before else above
        bounds.append(_own("above_own_limit", limit - before, currency, sentence, HIGHER))
    if (most := limits.caps_of(run.desk).get(currency, {}).get(BY_REVIEWER)) is not None:
        before = _granted(escalation, person, currency, utc_midnight(at))
        sentence = (
            f"You approved {format_money(before, currency)} today; with {wanted} that is above the "
            f"{format_money(most, currency)} that one person may approve in a day (UTC)."
        )
        bounds.append(_own("above_daily_total", most - before, currency, sentence, ANOTHER))
    return bounds


def _granted(
    escalation: Escalation,
    person: Membership,
    currency: str,
    since: datetime,
    *,
    book: int | None = None,
    **about: str,
) -> int:
    """Return what else the person granted at this desk in this currency since then, and holds.

    A first yes of two counts while it stands, and where a second one followed it.
    """
    same = {"run__desk": escalation.run.desk, "workspace": escalation.workspace_id}
    same |= {"currency": currency, "not_carried_out": ""}
    same |= {} if book is None else {"run__book": book}
    decided = Escalation.objects.filter(
        **same,
        **about,
        decided_by=person.user_id,
        decided_at__gte=since,
        granted_minor__isnull=False,
    )
    alone = decided.exclude(pk=escalation.pk).aggregate(total=Sum("granted_minor"))
    first = Approval.objects.filter(
        **{f"escalation__{name}": value for name, value in same.items()},
        **{name if name == "resource" else f"escalation__{name}": about[name] for name in about},
        by=person.user_id,
        at__gte=since,
        escalation__approval=F("pk"),
        escalation__state__in=(EscalationState.OPEN, *GRANTED),
    )
    of_two = first.exclude(escalation=escalation.pk).aggregate(total=Sum("granted_minor"))
    return (alone["total"] or 0) + (of_two["total"] or 0)


def _own(code: str, left: int, currency: str, sentence: str, others: str) -> Bound:
    at_most = f"Grant at most {format_money(left, currency)}" if left > 0 else "Reject it"
    return Bound(max(left, 0), code, f"{sentence} {at_most}, or leave it to {others}.")
