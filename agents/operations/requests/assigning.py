"""Assign a request to a person, to a team or to nobody.

An assignment keeps nobody else from deciding; a claim does, for a while.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.core.requests import Json
from agents.engine.people.deciders import deciders, is_kept_from, roster_of
from agents.engine.redaction import redact_words
from agents.models import DECIDES, Escalation, Role, Snooze, Team
from agents.operations.requests.claiming import (
    Claimed,
    is_told_again,
    lock_open,
    tell_of,
    wait_for_part,
)
from agents.shell.refusal import Refused, check_text, require_member

MAX_NOTE = 500  # characters
ASSIGNED = "escalation.assigned"


def assign(
    *,
    escalation_id: int,
    by: User | None,
    at: datetime,
    to_user: User | None = None,
    to_team: Team | None = None,
    note: str = "",
) -> Escalation:
    """Hand a request over with a note, to everybody if no receiver is given.

    This ends the claim of anyone but the receiver, and the receivers' snoozes. Only an admin may
    hand over a request that someone else has claimed. `by` None is the engine, which leaves claims
    alone. Raises Refused, Claimed.
    """
    if to_user and to_team:
        raise Refused("two_receivers", "Choose a person or a team.")
    check_text(note, most=MAX_NOTE, what="note")
    with transaction.atomic():
        found = lock_open(escalation_id, by, at=at)
        _check_giver(found, by, at=at)
        receivers = _receivers(found, to_user, to_team)
        note = redact_words(found.run, note.strip())
        is_same = (found.assigned_to, found.assigned_team) == (to_user, to_team)
        is_again = by is not None and is_told_again(found, ASSIGNED, by, note=note)
        if is_same and (not note or is_again):
            return found
        found.assigned_to, found.assigned_team = to_user, to_team
        if by and found.claimed_by != to_user:
            found.claimed_by = found.claimed_until = None
        columns = ["assigned_to", "assigned_team", "claimed_by", "claimed_until"]
        found.save(update_fields=columns)
        facts: Json = {"to": to_user.get_username()} if to_user else {}
        facts |= {"team": to_team.slug, "team_name": to_team.name} if to_team else {}
        facts |= {"note": note} if note else {}
        if woken := _wake(found, receivers):
            facts["woken"] = woken
        tell_of(found, ASSIGNED, by, at, **facts)
        return found


def _check_giver(found: Escalation, by: User | None, *, at: datetime) -> None:
    """Refuse to hand over a request that someone else has claimed; admins may. Raises Claimed."""
    if by is None or not is_kept_from(found, by, at=at):
        return
    if require_member(found.workspace, by, *DECIDES).role != Role.ADMIN:
        raise Claimed(found)


def _receivers(found: Escalation, to_user: User | None, to_team: Team | None) -> list[int]:
    """Return the ids of the receivers who may decide. Raises Refused if there are none."""
    if to_user is None and to_team is None:
        return []
    if to_user:
        wait_for_part(found, to_user)
    roster = roster_of(found)
    if to_team and to_team.workspace_id != found.workspace_id:
        raise Refused("no_receiver", "That team is not of this workspace.")
    able = [one.user_id for one in deciders(found, roster)]
    receivers = [
        user
        for user in able
        if (to_team in roster.teams[user] if to_team else to_user and user == to_user.pk)
    ]
    if not receivers:
        whom = f"Nobody in {to_team.name}" if to_team else f"{to_user} is not one who"
        raise Refused("no_receiver", f"{whom} can decide this request. Choose somebody who can.")
    return receivers


def _wake(found: Escalation, users: list[int]) -> list[str]:
    """End the snoozes of some users. Return their names."""
    snoozes = Snooze.objects.filter(escalation=found, user__in=users)
    woken = sorted(snoozes.values_list("user__username", flat=True))
    snoozes.delete()
    return woken
