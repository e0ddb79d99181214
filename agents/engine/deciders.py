"""Who may decide a request. One rule: for hand-overs, for cards, and for who is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from django.db.models import F, Q

from agents.engine.demands import OPEN_TO_ALL, demand_for
from agents.models import DECIDES, Escalation, Membership, Team
from agents.models.belonging import launchers_of


@dataclass(frozen=True)
class Roster:
    """The people of a request, read once: what all else here is decided from."""

    reviewers: Sequence[Membership]  # who may say no: people, and not its launcher
    teams: Mapping[int, Sequence[Team]]  # by user; of whoever decides here, and of the reader
    launchers: Collection[int]  # users

    def slugs(self, user: int) -> set[str]:
        """Return the teams of somebody."""
        return {team.slug for team in self.teams.get(user, ())}


def roster_of(escalation: Escalation, reader: int | None = None) -> Roster:
    """Read the people of a request, in one question. `reader` is a user, whatever their role."""
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
    """Return who may approve, whatever their own limits; if nobody may, who may reject."""
    return _who_may_say_yes(escalation, roster) or roster.reviewers


def people_who_may(escalation: Escalation, roster: Roster) -> list[tuple[float, Membership]]:
    """Return who may grant the amount asked for or, after a first approval, the amount of that.

    With their own limit; the lowest comes first.
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
    """Return the reviewers that tiers and a first approval do not exclude."""
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
