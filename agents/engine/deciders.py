"""Who may decide a request. One rule: for hand-overs, for cards, and for who is told."""

from __future__ import annotations

from math import inf

from django.db.models import QuerySet

from agents.engine.demands import OPEN_TO_ALL, demand_for
from agents.models import DECIDES, Escalation, Membership, Team
from agents.models.belonging import launchers_of


def deciders(escalation: Escalation) -> QuerySet[Membership]:
    """Return who may say yes, whatever their own limits; where nobody may, who may say no."""
    able = reviewers_of(escalation)
    may = _who_may_say_yes(escalation, able)
    return may if may is able or may.exists() else able


def people_who_may(escalation: Escalation) -> list[tuple[float, Membership]]:
    """Return who may grant what is asked for, or what a first person approved of it.

    With their own limit; the lowest comes first.
    """
    able = _who_may_say_yes(escalation, reviewers_of(escalation))
    desk, currency = escalation.run.desk, escalation.currency
    limits = [
        (inf if (most := one.limit_minor(desk, currency)) is None else most, one)
        for one in able.select_related("user")
    ]
    first = escalation.approval
    enough = (first and first.granted_minor) or escalation.amount_minor or 0
    may = [(most, one) for most, one in limits if most >= enough]
    return sorted(may, key=lambda pair: (pair[0], pair[1].user.get_username()))


def reviewers_of(escalation: Escalation) -> QuerySet[Membership]:
    """Return who may say no to a request: people, and not its launcher."""
    may = Membership.objects.filter(
        workspace=escalation.workspace_id,
        role__in=DECIDES,
        user__is_active=True,
        is_simulated=False,
    )
    run = escalation.run
    return may.exclude(user__in=launchers_of(run)) if run.limits.four_eyes else may


def _who_may_say_yes(escalation: Escalation, able: QuerySet[Membership]) -> QuerySet[Membership]:
    """Return those whom tiers and a first yes leave; the same query where there are neither."""
    demand = demand_for(escalation)
    if demand == OPEN_TO_ALL:
        return able
    if demand.people > 1 and not escalation.run.limits.four_eyes:  # which leaves them out itself
        able = able.exclude(user__in=launchers_of(escalation.run))
    if demand.teams is not None:
        own = Team.objects.filter(workspace=escalation.workspace_id, slug__in=demand.teams)
        able = able.filter(teams__in=own).distinct()
    return able.exclude(user=escalation.approval.by_id) if escalation.approval else able
