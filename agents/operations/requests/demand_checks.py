"""Who may approve a request, by the tiers of its run's pinned policy and by its tool."""

from __future__ import annotations

from agents.core.tiers import Demand
from agents.engine.people.deciders import Roster, parties_of, people_who_may, roster_of
from agents.models import Escalation, Membership, Team
from agents.operations.requests.claiming import own_words
from agents.shell.refusal import Refused


def check_demand(escalation: Escalation, person: Membership, demand: Demand) -> None:
    """Refuse an approval by a person who may not give it. Raises Refused.

    If two people must approve, neither may be a party to the run, even if the policy does not ask
    for four eyes.
    """
    if demand.people > 1 and person.user_id in parties_of(escalation.run):
        raise Refused("four_eyes", own_words(escalation.run))
    if demand.teams is not None and not demand.admits(teams_of(person)):
        roster = roster_of(escalation)
        able = people_who_may(escalation, roster)
        raise Refused("above_tier", above_tier(escalation, demand, bool(able), roster))


def teams_of(person: Membership) -> set[str]:
    """Return the teams of a person in their workspace, by slug."""
    own = Team.objects.filter(members=person, workspace=person.workspace_id)
    return set(own.values_list("slug", flat=True))


def above_tier(escalation: Escalation, demand: Demand, is_anyone_able: bool, roster: Roster) -> str:
    """Return a sentence on who may approve instead of a person outside the tier."""
    number = f"policy v{escalation.run.policy.number}"
    if not demand.teams:
        return (
            f"{number.capitalize()} has no tier for {escalation.currency}, so nobody can approve "
            "this. Reject it."
        )
    names = {team.slug: team.name for teams in roster.teams.values() for team in teams}
    if not names.keys() >= set(demand.teams):  # a team without anyone who may decide
        ours = Team.objects.filter(workspace=escalation.workspace_id, slug__in=demand.teams)
        names = dict(ours.values_list("slug", "name"))
    called = " or ".join(names.get(slug, slug) for slug in dict.fromkeys(demand.teams))
    told = f"Under {number}, only the team {called} may approve {escalation.asked}"
    if not is_anyone_able:
        alone = f"{told}, and nobody else in it can do so now."
        return f"{alone} Reject it, or have an admin add somebody."
    return f"{told}. Hand it to one of them, or reject it."
