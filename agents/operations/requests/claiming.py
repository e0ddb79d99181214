"""Claim an escalation, so that two people do not work on the same one."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.engine.people.deciders import parties_of
from agents.models import DECIDES, Escalation, Event, Membership, Role, Run
from agents.models.belonging import request_belongs
from agents.models.record import facts_of
from agents.operations.requests.escalation_lock import MISPLACED
from agents.shell.refusal import Refused, require_member, time_here

CLAIM = timedelta(minutes=15)


class Claimed(Exception):
    """Someone else has claimed this escalation and alone may decide it for now."""

    def __init__(self, escalation: Escalation) -> None:
        who, until = escalation.claimed_by, escalation.claimed_until
        kept = f"{who.get_username()} has claimed it" if who else "Someone has claimed it"
        super().__init__(f"{kept} until {time_here(until)}." if until else f"{kept}.")
        self.escalation = escalation


_LAUNCHED = "You launched this run, or the one it repeats, so someone else has to decide."
_OF_AGENT = "You have owned this agent, or seen a key that it used, so someone else has to decide."


def own_words(run: Run) -> str:
    """Return why four eyes keeps a person out, as a sentence to them."""
    return _OF_AGENT if run.agent_id else _LAUNCHED


def is_own(run: Run, user_id: int) -> bool:
    """Tell whether the policy keeps a person from deciding about their own run."""
    return run.limits.four_eyes and user_id in parties_of(run)


def claim(*, escalation_id: int, by: User, at: datetime) -> Escalation:
    """Claim an escalation for CLAIM; claiming again renews it. Raises Claimed, Refused.

    Anyone can claim it once a claim has expired.
    """
    with transaction.atomic():
        found = lock_open(escalation_id, by, at=at)
        wait_for_part(found, by)
        require_member(found.workspace, by, *DECIDES)
        if is_own(found.run, by.pk):
            raise Refused("four_eyes", own_words(found.run))
        free = Q(claimed_by__isnull=True) | Q(claimed_by=by) | Q(claimed_until__lte=Now())
        mine = Escalation.objects.filter(free, pk=found.pk, state=EscalationState.OPEN)
        if not mine.update(claimed_by=by, claimed_until=at + CLAIM):
            raise Claimed(found)
        tell_of(found, "escalation.claimed", by, at, until=(at + CLAIM).isoformat())
        found.claimed_by, found.claimed_until = by, at + CLAIM
        return found


def release_claim(*, escalation_id: int, by: User, at: datetime) -> Escalation:
    """Release a claim. Raises Claimed if it is somebody else's, Refused.

    An admin may release anybody's.
    """
    with transaction.atomic():
        found = lock_open(escalation_id, by, at=at)
        role = require_member(found.workspace, by, *DECIDES).role
        if found.claimed_by_id is None:
            return found
        if found.claimed_by_id != by.pk and role != Role.ADMIN:
            raise Claimed(found)
        Escalation.objects.filter(pk=found.pk).update(claimed_by=None, claimed_until=None)
        tell_of(found, "escalation.released", by, at)
        found.claimed_by, found.claimed_until = None, None
        return found


def wait_for_part(found: Escalation, user: User) -> None:
    """Lock a person's membership against removal, waiting for one under way."""
    part = Membership.objects.filter(workspace=found.workspace_id, user=user)
    list(part.select_for_update(no_key=True))


def lock_open(pk: int, by: User | None, *, at: datetime) -> Escalation:
    """Lock an open escalation, after its run as everywhere. Raises Refused.

    `by` must be a person who may decide; None is the engine.
    """
    run_id = Escalation.objects.values_list("run_id", flat=True).get(pk=pk)
    run = Run.objects.select_related("policy").select_for_update(of=("self",)).get(pk=run_id)
    whole = Escalation.objects.select_related("workspace", "step", "claimed_by", "assigned_to")
    found = whole.filter(request_belongs(), pk=pk).first()
    if found is None:
        raise Refused("misplaced", MISPLACED)
    found.run = run
    if by:
        require_member(found.workspace, by, *DECIDES)
    if (state := EscalationState(found.state)) != EscalationState.OPEN:
        raise Refused("not_open", f"This request is no longer open: it is {state.word}.")
    if found.frozen_at is None and found.expires_at <= at:
        raise Refused("not_open", "The request has expired and can no longer be decided.")
    return found


def tell_of(
    escalation: Escalation, kind: str, by: User | None, at: datetime, **facts: Json
) -> None:
    """Record what a person did with a request; None is the engine."""
    about = {"escalation": escalation.pk, "key": escalation.step.key, **facts}
    escalation.run.say(kind, at=at, facts=about, actor=by.get_username() if by else "")


def is_told_again(escalation: Escalation, kind: str, by: User, **facts: Json) -> bool:
    """Tell whether the newest event of a kind says that `by` did just this: a form sent twice."""
    about = Event.objects.filter(run=escalation.run, kind=kind, facts__escalation=escalation.pk)
    before = about.prefetch_related("texts").order_by("seq").last()
    if before is None or before.actor != by.get_username():
        return False
    return {name: facts_of(before).get(name) for name in facts} == facts
