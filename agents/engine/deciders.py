"""Who may decide a request: the one rule for hand-overs, cards and notifications."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from agents.core.decisions import ACTION, Demand, demand_of, kind_of
from agents.core.requests import EscalationState, Json
from agents.models import (
    DECIDES,
    AgentCall,
    Escalation,
    Event,
    ExternalAgent,
    Membership,
    Run,
    Team,
)
from agents.sdk.desk import tools_at
from agents.sdk.desk_tools import DeskTool

_OWNED, _SHOWN = "agent.set", "agent_key.made"  # events; the second's actor saw the key
_REPEATS = 4  # runs of a chain whose launchers count in the search for stuck requests
OPEN_TO_ALL = Demand()


@dataclass(frozen=True)
class Roster:
    """The people around a request, read once for all decisions here."""

    reviewers: Sequence[Membership]  # who may reject: people who are not parties
    teams: Mapping[int, Sequence[Team]]  # by user; those of reviewers and of the reader
    parties: Collection[int]  # users

    def slugs(self, user: int) -> set[str]:
        return {team.slug for team in self.teams.get(user, ())}


def roster_of(escalation: Escalation, reader: int | None = None) -> Roster:
    """Read the people around a request in one query. `reader` may be a user of any role."""
    four_eyes, parties = escalation.run.limits.four_eyes, parties_of(escalation.run)
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
        is_own = four_eyes and row.user_id in parties
        if row.role in DECIDES and is_person and not is_own:
            reviewers[row.pk] = row
    return Roster(list(reviewers.values()), teams, parties)


def deciders(escalation: Escalation, roster: Roster) -> Sequence[Membership]:
    """Return those who may approve, whatever their limits, or else those who may reject."""
    return _who_may_say_yes(escalation, roster) or roster.reviewers


def people_who_may(escalation: Escalation, roster: Roster) -> list[tuple[float, Membership]]:
    """Return those who may grant the requested amount, or the first approval's.

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
    out = set(roster.parties) if demand.people > 1 else set()
    out |= {escalation.approval.by_id} if escalation.approval else set()
    return [
        one
        for one in roster.reviewers
        if one.user_id not in out
        and (demand.teams is None or roster.slugs(one.user_id) & set(demand.teams))
    ]


def undecidable(workspaces: Collection[int], *, most: int) -> list[Escalation]:
    """Return at most `most` open requests, newest first, that nobody can decide.

    One query finds those to which every reviewer may be a party; each of them is then checked.
    """
    people = Membership.objects.filter(
        workspace=OuterRef("workspace"), role__in=DECIDES, user__is_active=True, is_simulated=False
    )
    for times in range(_REPEATS):
        launcher = OuterRef("run" + "__again_of" * times + "__launched_by")
        people = people.exclude(user=Coalesce(launcher, 0))
    name, agent = OuterRef("user__username"), OuterRef(OuterRef("run__agent__name"))
    events = Event.objects.filter(workspace=OuterRef("workspace"), run=None)
    events = events.alias(of=KT("facts__agent"), owner=KT("facts__owner")).filter(of=agent)
    party = events.filter(Q(kind=_OWNED, owner=name) | Q(kind=_SHOWN, actor=name))
    free = people.exclude(Exists(party.filter(kind__in=(_OWNED, _SHOWN))))
    is_stuck = ~Exists(people) | Q(run__agent__isnull=False) & ~Exists(free)
    requests = Escalation.objects.filter(
        is_stuck, state=EscalationState.OPEN, workspace__in=workspaces
    )
    whole = requests.select_related("run__policy", "run__agent", "approval").order_by("-pk")
    return [one for one in whole[:most] if not deciders(one, roster_of(one))]


def is_own(run: Run, user_id: int) -> bool:
    """Tell whether the policy keeps a person from deciding about their own run."""
    return run.limits.four_eyes and user_id in parties_of(run)


def is_kept_from(escalation: Escalation, user: User, *, at: datetime) -> bool:
    """Tell whether someone else has claimed it."""
    until = escalation.claimed_until
    return until is not None and until > at and escalation.claimed_by_id != user.pk


# Whom four eyes excludes.


def parties_of(run: Run) -> set[int]:
    """Return the users whom four eyes excludes from deciding about a run.

    They are the launchers of the run and of those it repeats, as all pursue one goal. For an
    external agent's run they are also its owners since, and everyone who saw a key used in these
    runs.
    """
    chain, began = {run.pk: run.launched_by_id}, run.created_at
    before = run.again_of_id
    while before and before not in chain:
        earlier = Run.objects.filter(pk=before)
        chain[before], before, began = earlier.values_list(
            "launched_by_id", "again_of_id", "created_at"
        ).get()
    if run.agent is None:
        return set(chain.values())
    events = _told_of(run.agent)
    names = {facts["owner"] for kind, at, _, facts in events if kind == _OWNED and at >= began}
    names |= set(_viewers(events, _keys_of(chain)).values())
    users = User.objects.filter(username__in=names)
    return {*chain.values(), run.agent.owner_id, *users.values_list("pk", flat=True)}


def _keys_of(runs: Collection[UUID]) -> set[str]:
    """Return the prefixes of agents' keys that opened these runs or made a call in them."""
    opened = Event.objects.filter(run__in=runs, seq=1, facts__has_key="agent_key")
    used = AgentCall.objects.filter(run__in=runs).exclude(key_prefix="").order_by()
    both = used.values_list("key_prefix").union(opened.values_list(KT("facts__agent_key")))
    return {prefix for (prefix,) in both}


def key_viewers(agent: ExternalAgent, prefixes: Collection[str]) -> dict[str, str]:
    """Return the name of the person who saw each key of an agent, by prefix; "" if unknown."""
    seen = _viewers(_told_of(agent), prefixes) if prefixes else {}
    users = User.objects.filter(username__in=set(seen.values()))
    people = set(users.values_list("username", flat=True))
    return {key: seen[key] if seen.get(key) in people else "" for key in prefixes}


def _told_of(agent: ExternalAgent) -> list[tuple[str, datetime, str, Json]]:
    """Return the events of an agent's owners and keys as kind, time, actor and facts."""
    of_agent = Event.objects.filter(
        workspace=agent.workspace_id, run=None, kind__in=(_OWNED, _SHOWN), facts__agent=agent.name
    )
    return list(of_agent.order_by("seq").values_list("kind", "at", "actor", "facts"))


def _viewers(
    events: Collection[tuple[str, datetime, str, Json]], keys: Collection[str]
) -> dict[str, str]:
    """Return the actor who made each key, by prefix: they saw it. A command is not a user."""
    made = {facts["key"]: actor for kind, _, actor, facts in events if kind == _SHOWN}
    return {key: made[key] for key in keys if key in made}


# What an approval requires: by the tiers of the run's pinned policy, and by its tool.


def held_tool(escalation: Escalation) -> DeskTool | None:
    """Return the held call's tool if an approval may run it with changed arguments."""
    if kind_of(escalation.kind, escalation.action) is not ACTION:
        return None
    return tools_at(escalation.run.desk).get(escalation.action.get("name", ""))


def demand_for(escalation: Escalation) -> Demand:
    """Return what approving a request requires. Without tiers this takes no query."""
    tool, run = held_tool(escalation), escalation.run
    if tool is None or not (run.limits.tiers or tool.people > 1):
        return OPEN_TO_ALL
    tiers = run.limits.tiers_of(run.desk, escalation.currency)
    return demand_of(tiers, escalation.amount_minor, people=tool.people)
