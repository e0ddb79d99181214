"""Who may decide a request: the one rule for hand-overs, cards and notifications."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from django.db.models import F, Q

from agents.engine.people.approval_demand import OPEN_TO_ALL, demand_for
from agents.models import DECIDES, Escalation, Membership, Team
from agents.models.belonging import launchers_of


@dataclass(frozen=True)
class Roster:
    """The people around a request, read once for all decisions here."""

    reviewers: Sequence[Membership]  # who may say no: people, and not its launcher
    teams: Mapping[int, Sequence[Team]]  # by user; those of reviewers and of the reader
    launchers: Collection[int]  # users

    def slugs(self, user: int) -> set[str]:
        """Return the slugs of a user's teams."""
        return {team.slug for team in self.teams.get(user, ())}


def roster_of(escalation: Escalation, reader: int | None = None) -> Roster:
    """Read the people around a request in one query. `reader` may be a user of any role."""
    four_eyes, launchers = escalation.run.limits.four_eyes, launchers_of(escalation.run)
    here = Membership.objects.filter(workspace=escalation.workspace_id).select_related("user")
    rows = here.filter(Q(role__in=DECIDES) | Q(user=reader)).annotate(
        team=F("teams"), slug=F("teams__slug"), called=F("teams__name")
    )
    reviewers: dict[int, Membership] = {}
    teams = defaultdict[int, list[Team]](list)
    for row in rows.order_by("pk"):
        if row.team is not None:
            teams[row.user_id].append(Team(pk=row.team, slug=row.slug, name=row.called))
        is_person = row.user.is_active and not row.is_simulated
        is_own = four_eyes and row.user_id in launchers
        if row.role in DECIDES and is_person and not is_own:
            reviewers[row.pk] = row
    return Roster(list(reviewers.values()), teams, launchers)


def deciders(escalation: Escalation, roster: Roster) -> Sequence[Membership]:
    """Return those who may approve, whatever their limits, or else those who may reject."""
    return _who_may_say_yes(escalation, roster) or roster.reviewers


def people_who_may(escalation: Escalation, roster: Roster) -> list[tuple[float, Membership]]:
    """Return those who may grant the requested amount or, after a first approval, its amount.

    Each with their own limit, the lowest first.
    """
    desk, currency = escalation.run.desk, escalation.currency
    limits = [
        (inf if (most := one.limit_minor(desk, currency)) is None else most, one)
        for one in _who_may_say_yes(escalation, roster)
    ]
    first = escalation.approval
    enough = (first and first.granted_minor) or escalation.amount_minor or 0
    may = [(most, one) for most, one in limits if most >= enough]
    return sorted(may, key=lambda pair: (pair[0], pair[1].user.get_username()))


def _who_may_say_yes(escalation: Escalation, roster: Roster) -> Sequence[Membership]:
    """Return the reviewers whom neither tiers nor a first approval exclude."""
    demand = demand_for(escalation)
    if demand == OPEN_TO_ALL:
        return roster.reviewers
    out = set(roster.launchers) if demand.people > 1 else set()
    out |= {escalation.approval.by_id} if escalation.approval else set()
    return [
        one
        for one in roster.reviewers
        if one.user_id not in out
        and (demand.teams is None or roster.slugs(one.user_id) & set(demand.teams))
    ]
