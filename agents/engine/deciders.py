"""Hold an action until a person decides, and say who may."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Now

from agents.core.decisions import ACTION, Demand, Tiers, demand_of, kind_of, tier_after
from agents.core.json_forms import sha256
from agents.core.limits import Limits
from agents.core.requests import EscalationState, Json
from agents.db.compiled import CompiledSelect, Param, Params, new_row, send_columns
from agents.db.driver import Pending, pipeline
from agents.engine.commit import (
    ASKED_AGAIN,
    CARRIED_OUT,
    STEP_BY_KEY,
    Commit,
    close_approvals,
    turn_of,
)
from agents.engine.kill_switch import KILLED, fetch_switch_for_request
from agents.models import (
    DECIDES,
    AgentCall,
    Escalation,
    Event,
    ExternalAgent,
    Membership,
    Run,
    Snooze,
    Step,
    Team,
    Workspace,
)
from agents.models.runs import target_of
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


def undecidable(found: Collection[int]) -> set[int]:
    """Return which of some requests nobody can decide."""
    whole = Escalation.objects.filter(pk__in=found)
    whole = whole.select_related("run__policy", "run__agent", "approval")
    return {one.pk for one in whole if not deciders(one, roster_of(one))}


def all_parties(workspaces: Params) -> QuerySet[Escalation]:
    """Return the open requests to which every reviewer may be a party."""
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
    waiting = Escalation.objects.filter(state=EscalationState.OPEN, workspace__in=workspaces)
    return waiting.filter(is_stuck)


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


# Hold an action until a person decides.


_OF_STEP = CompiledSelect(
    lambda: Escalation.objects.filter(run=Param("run"), step__key=Param("key")).order_by("pk")
)


def fetch_escalation(run_id: UUID, key: str) -> Pending[list[Escalation]]:
    """Fetch the escalation opened by the step `key` of a run, in an open pipeline if any."""
    return _OF_STEP.fetch(run=run_id, key=key)


def open_escalation(
    commit: Commit, *, step: Step, kind: str, action: Json, review: Json, limits: Limits
) -> str:
    """Put a step's action into the inbox, or return whose requests fill it.

    A question about a call's outcome ignores the limit.
    """
    at = commit.at
    run, request_kind = step.run, kind_of(kind, action)
    target = target_of(run, action)
    target = target._replace(resource=target.resource or _resource_in(review))
    with pipeline():  # the switch first: it locks the workspace against other requests
        standing = fetch_switch_for_request(run, action.get("name", ""))
        filled = Pending(str) if request_kind.settles_call else fetch_full(run, limits)
    switch, full = standing.get(), filled.get()
    if full:
        return full
    escalation = new_row(
        Escalation,
        **target._asdict(),
        workspace_id=run.workspace_id,
        run=run,
        step=step,
        kind=kind,
        action=action,
        action_sha256=sha256(action),
        review=review,
        is_marked=bool((review.get("facts") or {}).get("doubts")),
        created_at=at,
        frozen_at=at if switch == KILLED else None,
        expires_at=at + timedelta(seconds=limits.escalation_seconds),
    )
    of_tier = _put_to_tier(escalation)
    with pipeline():
        steps = commit.send_steps()  # the request refers to its own
        row = {**vars(escalation), "step_id": {"run": run.pk, "key": step.key}}
        found = {"step_id": STEP_BY_KEY}
        keys = send_columns(Escalation, [row], keys=found, wants_keys=True)
    steps.get()
    [escalation.pk] = keys.get()
    # This request replaces an approval of the same turn. A first claim has none.
    if kind in CARRIED_OUT and run.fence > 1:
        commit.tell(close_approvals(run, why=ASKED_AGAIN, turn=turn_of(step.key)))
    facts = {"escalation": escalation.pk, "key": step.key, "kind": kind}
    # The page shows the row; the event proves its content.
    facts |= {"requested_minor": target.amount_minor, "currency": target.currency}
    facts |= {"resource": resource} if (resource := _resource_in(review)) else {}
    facts |= {"action_sha256": escalation.action_sha256, **of_tier}
    facts |= {"tool": action["name"]} if action.get("kind") == "tool" else {}
    commit.say("escalation.opened", {**facts, "reason": review["deciding"]["reason"]})
    return ""


def _resource_in(review: Json) -> str:
    """Return a call's resource by the facts of its review; "" where its arguments have it."""
    return str((review.get("facts") or {}).get("resource") or "")


# Caps on waiting requests, so that nobody can flood the inbox.


LAUNCHER, SUBJECT = "launcher", "subject"  # as stored


def fetch_full(run: Run, limits: Limits) -> Pending[str]:
    """Fetch whose requests fill the inbox, in an open pipeline if any.

    The answer is LAUNCHER, SUBJECT, or "" if there is room. It holds while the workspace's row is
    locked: openers of requests lock it first.
    """
    by_launcher, about_subject = limits.open_per_launcher, limits.open_per_subject
    if by_launcher is None and (about_subject is None or not run.subject_key):
        return Pending(str)
    counted = _OPEN.fetch_tuples(
        workspace=run.workspace_id,
        launcher=run.launched_by_id,
        desk=run.desk,
        book=run.book_id,
        subject=run.subject_key,
    )

    def answer() -> str:
        [(theirs, about)] = counted.get()
        if by_launcher is not None and theirs >= by_launcher:
            return LAUNCHER
        is_filled = about_subject is not None and run.subject_key and about >= about_subject
        return SUBJECT if is_filled else ""

    return Pending(answer)


def _count_open(**those: object) -> Coalesce:
    """Count open requests of a workspace."""
    waiting = Escalation.objects.filter(
        workspace=Param("workspace"), state=EscalationState.OPEN, **those
    )
    counts = waiting.order_by().values("state").annotate(count=Count("pk"))
    return Coalesce(Subquery(counts.values("count")), 0)


# Read at each launch and at each request: both in one statement, each by its own index.
_OPEN = CompiledSelect(
    lambda: Workspace.objects.filter(pk=Param("workspace")).values_list(
        _count_open(run__launched_by=Param("launcher")),
        _count_open(run__desk=Param("desk"), run__book=Param("book"), subject_key=Param("subject")),
    )
)


# A request goes to its tier's team, and to the next tier's without an answer in time. The amount
# alone decides who may decide (see `core.decisions`); climbing changes only who is asked. After the
# last tier the request expires, which counts as a rejection.


def _put_to_tier(escalation: Escalation) -> dict[str, Json]:
    """Assign a new request to the team of its tier. Return the facts for its event."""
    run = escalation.run
    if not run.limits.tiers or kind_of(escalation.kind, escalation.action) is not ACTION:
        return {}
    tiers = run.limits.tiers_of(run.desk, escalation.currency)
    place = demand_of(tiers, escalation.amount_minor).place
    if not tiers or place is None:
        return {}
    return _put_to(escalation, tiers, place, at=escalation.created_at)


def climb(pk: int, *, at: datetime) -> bool:
    """Move a request to its next tier if its present one has not answered in time."""
    with transaction.atomic():
        run_id = Escalation.objects.values_list("run_id", flat=True).get(pk=pk)
        run = Run.objects.select_related("policy").select_for_update(of=("self",)).get(pk=run_id)
        due = Escalation.objects.filter(
            pk=pk, state=EscalationState.OPEN, frozen_at=None, climbs_at__lte=Now()
        ).filter(expires_at__gt=Now())
        escalation = due.select_related("step").first()
        if escalation is None or escalation.tier is None:
            return False
        escalation.run, was = run, escalation.tier
        tiers = run.limits.tiers_of(run.desk, escalation.currency) or ()
        place = tier_after(tiers, was)
        escalation.climbs_at = None
        if place is None:
            escalation.save(update_fields=["climbs_at"])
            return False
        about = {"escalation": pk, "key": escalation.step.key}
        facts = about | _put_to(escalation, tiers, place, at=at)
        team = escalation.assigned_team
        woken = Snooze.objects.filter(escalation=pk, user__memberships__teams=team)
        if names := sorted(woken.values_list("user__username", flat=True)):
            facts["woken"] = names
            woken.delete()
        escalation.save(update_fields=["tier", "climbs_at", "assigned_to", "assigned_team"])
        with Commit(run, at=at) as commit:
            commit.say("escalation.assigned", {**facts, "silent_minutes": tiers[was].answer_within})
    return True


def _put_to(escalation: Escalation, tiers: Tiers, place: int, *, at: datetime) -> dict[str, Json]:
    """Set a request's tier, and until when. Return that as facts."""
    slug, within = tiers[place].team, tiers[place].answer_within
    teams = Team.objects.filter(workspace=escalation.workspace_id, slug=slug)
    team = teams.first() if slug else None
    escalation.tier, escalation.assigned_to, escalation.assigned_team = place, None, team
    escalation.climbs_at = at + timedelta(minutes=within) if within else None
    return {"tier": place, **({"team": team.slug, "team_name": team.name} if team else {})}
