"""A request's holder and comments, and the people to whom this person may hand it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import F

from agents.core.states import EscalationState
from agents.core.units import with_unit
from agents.engine.people.deciders import Roster, deciders
from agents.models import Escalation, Event, EventText, Role, Team
from agents.models.record import ErasedText, facts_of
from agents.operations.requests.commenting import COMMENTED
from agents.operations.requests.snoozing import deadline_of
from agents.shell import access
from agents.web.approvals.inbox import claimant

SAID = 30  # entries that a card shows, the newest
PERIODS = (5, 10, 30, 60, 4 * 60, 24 * 60)  # minutes that a snooze may take


@dataclass(frozen=True)
class Said:
    """A comment, or a hand-over with its note."""

    event: Event
    is_handed: bool
    to: str  # the receiver; "" for everybody
    is_team: bool
    text: str


@dataclass(frozen=True)
class Holder:
    """The holder of a waiting request."""

    claimed_by: str
    to: str  # the assigned person or team; "" for nobody
    is_team: bool
    is_reader: bool  # it is assigned to the reader or to their team
    is_able: bool  # the assigned person or team may still decide it


@dataclass(frozen=True)
class Handover:
    """The part of a card about working together, for one person."""

    holder: Holder
    said: Sequence[Said]
    is_cut: bool  # there are more entries than are shown
    entry: int  # the reader's newest entry; 0: none
    may_comment: bool
    people: Sequence[str]  # possible receivers; empty if this person may not hand it over
    teams: Sequence[Team]
    snoozed_until: datetime | None  # by the reader
    periods: Sequence[tuple[int, str]]  # offered for snoozing, in minutes and in words

    @property
    def may_hand_over(self) -> bool:
        return bool(self.people or self.teams)


def handover_of(
    escalation: Escalation, user: User, roster: Callable[[], Roster], *, at: datetime
) -> Handover:
    """Read a request's holder and comments, and what this person may do about it."""
    part = access.membership(user, escalation.workspace_id)
    waits = escalation.state == EscalationState.OPEN and deadline_of(escalation, at=at) > at
    acts = waits and part.role in access.DECIDES
    claimed_by = claimant(escalation, at=at)
    is_kept = bool(claimed_by) and escalation.claimed_by_id != user.pk and part.role != Role.ADMIN
    people: list[str] = []
    teams: list[Team] = []
    if acts and not is_kept:
        able = deciders(escalation, roster())
        people = sorted(one.user.get_username() for one in able)
        ours = {team for one in able for team in roster().teams[one.user_id]}
        teams = sorted(ours, key=lambda team: (team.name, team.pk))
    until = getattr(escalation, "snoozed_until", None)
    said, name = _comments(escalation), user.get_username()
    return Handover(
        holder=_holder(escalation, user, claimed_by, roster),
        said=said[-SAID:],
        is_cut=len(said) > SAID,
        entry=max((one.event.seq for one in said if one.event.actor == name), default=0),
        may_comment=acts,
        people=people,
        teams=teams,
        snoozed_until=until if until and until > at and waits else None,
        periods=_periods(deadline_of(escalation, at=at) - at) if acts else [],
    )


def _holder(
    escalation: Escalation, user: User, claimed_by: str, roster: Callable[[], Roster]
) -> Holder:
    to, team = escalation.assigned_to, escalation.assigned_team
    if team:
        teams = roster().teams
        is_able = any(team in teams[one.user_id] for one in deciders(escalation, roster()))
        return Holder(claimed_by, team.name, True, team in teams[user.pk], is_able)
    if to:
        is_able = any(one.user_id == to.pk for one in deciders(escalation, roster()))
        return Holder(claimed_by, to.get_username(), False, to == user, is_able)
    return Holder(claimed_by, "", False, False, True)


def _comments(escalation: Escalation) -> list[Said]:
    """Return its comments, oldest first, at most one more than is shown."""
    kinds = (COMMENTED, "escalation.assigned")
    found = Event.objects.filter(run=escalation.run_id, kind__in=kinds)
    mine = found.filter(facts__escalation=escalation.pk).annotate(
        name=F("texts__name"), text=F("texts__text"), erased_at=F("texts__erased_at")
    )  # each has one text at most
    return [_entry(event) for event in reversed(mine.order_by("-seq")[: SAID + 1])]


def _entry(event: Any) -> Said:
    text = EventText(name=event.name, text=event.text, erased_at=event.erased_at)
    facts = facts_of(event, [text] if text.name else [])
    is_handed, is_team = event.kind != COMMENTED, "team" in facts
    to = facts.get("team_name", "") if is_team else facts.get("to", "")
    said = facts.get("comment") or facts.get("note", "")
    said = said.sentence if isinstance(said, ErasedText) else said
    return Said(event, is_handed, to, is_team, said)


def _periods(left: timedelta) -> list[tuple[int, str]]:
    return [
        (minutes, f"{minutes} minutes" if minutes < 60 else _hours(minutes // 60))
        for minutes in PERIODS
        if timedelta(minutes=minutes) < left
    ]


def _hours(hours: int) -> str:
    return with_unit(hours, "hours")
