"""What tiers and two-person approval mean for one person's card, if a request falls under them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from django.contrib.auth.models import User

from agents.core.money import format_money
from agents.core.tiers import MOST_PEOPLE, Demand
from agents.engine.people.approval_demand import OPEN_TO_ALL, demand_for
from agents.engine.people.deciders import Roster, people_who_may
from agents.models import Approval, Escalation, Membership
from agents.operations.requests.approving import SAW_NONE, lapse_in_words, membership_of
from agents.operations.requests.demand_checks import above_tier
from agents.shell.refusal import Refused


@dataclass(frozen=True)
class Receiver:
    """A person or team to hand a request to: as a form value, and in words."""

    value: str
    label: str


@dataclass(frozen=True)
class Entitlement:
    """What a person may do about a waiting request."""

    demand: Demand
    first: Approval | None = None  # the first approval, if it counts
    lapsed: str = ""  # why it no longer counts
    is_first: bool = False  # the person gave it
    is_party: bool = False  # the person is a party to a run that takes two approvals
    below: str = ""  # why the person may not approve
    receivers: Sequence[Receiver] = ()  # those who may, lowest limit first
    lacks_second: bool = False  # nobody is left to give the second approval

    @property
    def takes_two(self) -> bool:
        return self.demand.people > 1

    @property
    def shown(self) -> int:
        """Return the form value for the first approval that its reader saw."""
        return self.first.pk if self.first else SAW_NONE

    @property
    def may_say_yes(self) -> bool:
        return not (self.is_first or self.is_party or self.below)


def entitlement_of(escalation: Escalation, user: User, roster: Callable[[], Roster]) -> Entitlement:
    """Return what a person may do about an open request."""
    demand = demand_for(escalation)
    if demand == OPEN_TO_ALL:
        return Entitlement(demand)
    people, first, lapsed = roster(), escalation.approval, ""
    if first and not _still_may(first, escalation, demand, people):
        try:
            membership_of(first, escalation)
        except Refused as no:
            lapsed = lapse_in_words(first, no)
            first = None
    able = people_who_may(escalation, people)
    may = [(most, one) for most, one in able if one.user_id != user.pk]
    return Entitlement(
        demand,
        first=first,
        lapsed=lapsed,
        is_first=first is not None and first.by_id == user.pk,
        is_party=demand.people > 1 and user.pk in people.parties,
        below=""
        if demand.admits(people.slugs(user.pk))
        else above_tier(escalation, demand, bool(may), people),
        receivers=_receivers(escalation, demand, may, people) if demand.place is not None else (),
        lacks_second=demand.people > 1 and len(able) + bool(first) < MOST_PEOPLE,
    )


def _still_may(first: Approval, escalation: Escalation, demand: Demand, people: Roster) -> bool:
    """Tell whether a first approval certainly counts; if not, `membership_of` says why."""
    by = first.by_id
    is_able = any(one.user_id == by for one in people.reviewers) and by not in people.parties
    is_same = first.action_sha256 == escalation.action_sha256
    return is_able and is_same and demand.admits(people.slugs(by))


def _receivers(
    escalation: Escalation,
    demand: Demand,
    may: Sequence[tuple[float, Membership]],
    people: Roster,
) -> list[Receiver]:
    """Return the teams that may decide, then each person, by name and limit.

    The present holder is left out.
    """
    mine, theirs = escalation.assigned_to_id, escalation.assigned_team_id
    ours = {team for _, one in may for team in people.teams[one.user_id] if team.pk != theirs}
    names = {team.slug: team.name for team in ours}
    found = [
        Receiver(f"team:{slug}", f"the team {names[slug]}")
        for slug in dict.fromkeys(demand.teams or ())
        if slug in names
    ]
    currency, asked = escalation.currency, demand.teams or ()
    for most, one in may:
        if one.user_id == mine:
            continue
        limit = "any amount" if most == inf else f"up to {format_money(int(most), currency)}"
        name = one.user.get_username()
        inside = [team.name for team in people.teams[one.user_id] if team.slug in asked]
        of = f" of {' and '.join(inside)}" if inside else ""
        found.append(Receiver(f"person:{name}", f"{name}{of}, {limit}"))
    return found
