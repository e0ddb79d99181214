"""Share the work on requests: claim one, hand it over, snooze it, comment on it; save a view."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from agents.core.requests import EscalationState, Json
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import pipeline
from agents.engine.deciders import deciders, is_kept_from, is_own, roster_of
from agents.engine.redaction import redact_in, redact_words
from agents.models import (
    DECIDES,
    Escalation,
    Event,
    KillSwitch,
    Membership,
    Role,
    Run,
    SavedView,
    Snooze,
    Step,
    Team,
    Workspace,
)
from agents.models.belonging import request_belongs
from agents.models.record import facts_of
from agents.shell.refusal import Refused, check_text, members, require_member, time_here

CLAIM = timedelta(minutes=15)


def claim(*, escalation_id: int, by: User, at: datetime) -> Escalation:
    """Claim an escalation for CLAIM; claiming again renews it. Raises Refused.

    Anyone can claim it once a claim has expired.
    """
    with transaction.atomic():
        escalation = _lock_open(escalation_id, by, at=at)
        _wait_for_part(escalation, by)
        require_member(escalation.workspace, by, *DECIDES)
        if is_own(escalation.run, by.pk):
            raise Refused("four_eyes", own_words(escalation.run))
        free = Q(claimed_by__isnull=True) | Q(claimed_by=by) | Q(claimed_until__lte=Now())
        mine = Escalation.objects.filter(free, pk=escalation.pk, state=EscalationState.OPEN)
        if not mine.update(claimed_by=by, claimed_until=at + CLAIM):
            raise Claimed(escalation)
        _tell_of(escalation, "escalation.claimed", by, at, until=(at + CLAIM).isoformat())
        escalation.claimed_by, escalation.claimed_until = by, at + CLAIM
        return escalation


def release_claim(*, escalation_id: int, by: User, at: datetime) -> Escalation:
    """Release a claim. Raises Refused.

    An admin may release anybody's.
    """
    with transaction.atomic():
        escalation = _lock_open(escalation_id, by, at=at)
        role = require_member(escalation.workspace, by, *DECIDES).role
        if escalation.claimed_by_id is None:
            return escalation
        if escalation.claimed_by_id != by.pk and role != Role.ADMIN:
            raise Claimed(escalation)
        Escalation.objects.filter(pk=escalation.pk).update(claimed_by=None, claimed_until=None)
        _tell_of(escalation, "escalation.released", by, at)
        escalation.claimed_by, escalation.claimed_until = None, None
        return escalation


class Claimed(Refused):
    """Someone else has claimed this escalation and alone may decide it for now."""

    def __init__(self, escalation: Escalation) -> None:
        who, until = escalation.claimed_by, escalation.claimed_until
        kept = f"{who.get_username()} has claimed it" if who else "Someone has claimed it"
        super().__init__("claimed", f"{kept} until {time_here(until)}." if until else f"{kept}.")
        self.escalation = escalation


_LAUNCHED = "You launched this run, or the one it repeats, so someone else has to decide."
_OF_AGENT = "You have owned this agent, or seen a key that it used, so someone else has to decide."


def own_words(run: Run) -> str:
    """Return why four eyes excludes a person, as a sentence to them."""
    return _OF_AGENT if run.agent_id else _LAUNCHED


# Assign a request. An assignment excludes nobody from deciding; a claim does, for a while.
_MAX_NOTE = 500  # characters
_ASSIGNED = "escalation.assigned"


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
    alone. Raises Refused.
    """
    if to_user and to_team:
        raise Refused("two_receivers", "Choose a person or a team.")
    check_text(note, most=_MAX_NOTE, what="note")
    with transaction.atomic():
        escalation = _lock_open(escalation_id, by, at=at)
        _check_giver(escalation, by, at=at)
        receivers = _receivers(escalation, to_user, to_team)
        note = redact_words(escalation.run, note.strip())
        is_same = (escalation.assigned_to, escalation.assigned_team) == (to_user, to_team)
        is_again = by is not None and _is_told_again(escalation, _ASSIGNED, by, note=note)
        if is_same and (not note or is_again):
            return escalation
        escalation.assigned_to, escalation.assigned_team = to_user, to_team
        if by and escalation.claimed_by != to_user:
            escalation.claimed_by = escalation.claimed_until = None
        columns = ["assigned_to", "assigned_team", "claimed_by", "claimed_until"]
        escalation.save(update_fields=columns)
        facts: Json = {"to": to_user.get_username()} if to_user else {}
        facts |= {"team": to_team.slug, "team_name": to_team.name} if to_team else {}
        facts |= {"note": note} if note else {}
        if woken := _wake(escalation, receivers):
            facts["woken"] = woken
        _tell_of(escalation, _ASSIGNED, by, at, **facts)
        return escalation


def _check_giver(escalation: Escalation, by: User | None, *, at: datetime) -> None:
    """Refuse to hand over a request that someone else has claimed; admins may. Raises Refused."""
    if by is None or not is_kept_from(escalation, by, at=at):
        return
    if require_member(escalation.workspace, by, *DECIDES).role != Role.ADMIN:
        raise Claimed(escalation)


def _receivers(escalation: Escalation, to_user: User | None, to_team: Team | None) -> list[int]:
    """Return the ids of the receivers who may decide. Raises Refused if there are none."""
    if to_user is None and to_team is None:
        return []
    if to_user:
        _wait_for_part(escalation, to_user)
    roster = roster_of(escalation)
    if to_team and to_team.workspace_id != escalation.workspace_id:
        raise Refused("no_receiver", "That team is not of this workspace.")
    able = [one.user_id for one in deciders(escalation, roster)]
    receivers = [
        user
        for user in able
        if (to_team in roster.teams[user] if to_team else to_user and user == to_user.pk)
    ]
    if not receivers:
        whom = f"Nobody in {to_team.name}" if to_team else f"{to_user} is not one who"
        raise Refused("no_receiver", f"{whom} can decide this request. Choose somebody who can.")
    return receivers


def _wake(escalation: Escalation, users: list[int]) -> list[str]:
    """End the snoozes of some users. Return their names."""
    snoozes = Snooze.objects.filter(escalation=escalation, user__in=users)
    woken = sorted(snoozes.values_list("user__username", flat=True))
    snoozes.delete()
    return woken


# Hide a request from one's own views for a while; its deadline stays, and others see it.


def snooze(*, escalation_id: int, by: User, until: datetime, at: datetime) -> Snooze:
    """Snooze a request until a time before its deadline, or change that time. Raises Refused.

    The person's own claim ends.
    """
    with transaction.atomic():
        escalation = _lock_open(escalation_id, by, at=at)
        deadline = deadline_of(escalation, at=at)
        if not at < until < deadline:
            raise Refused(
                "bad_snooze",
                f"Choose a time from now on and before the deadline, {time_here(deadline)}.",
            )
        made, _ = Snooze.objects.update_or_create(
            escalation=escalation, user=by, defaults={"until": until}
        )
        if escalation.claimed_by == by:
            escalation.claimed_by = escalation.claimed_until = None
            escalation.save(update_fields=["claimed_by", "claimed_until"])
        _tell_of(escalation, "escalation.snoozed", by, at, until=until.astimezone(UTC).isoformat())
        return made


def wake(*, escalation_id: int, by: User, at: datetime) -> None:
    """End one's own snooze of a request. Raises Refused."""
    with transaction.atomic():
        escalation = _lock_open(escalation_id, by, at=at)
        if Snooze.objects.filter(escalation=escalation, user=by).delete()[0]:
            _tell_of(escalation, "escalation.woken", by, at)


def deadline_of(escalation: Escalation, *, at: datetime) -> datetime:
    """Return when a request expires, at the earliest if a kill switch pauses its deadline."""
    left = escalation.expires_at - (escalation.frozen_at or at)
    return at + left


# Comment on a request for those who decide it. Comments are permanent.
MAX_COMMENT = 2000  # characters
COMMENTED = "escalation.commented"


def comment(*, escalation_id: int, by: User, text: str, at: datetime) -> None:
    """Add a comment to an open request. Raises Refused.

    It is an event with an erasable text. A repetition of the person's latest comment, as by sending
    a form twice, is ignored.
    """
    if not text.strip():
        raise Refused("no_comment", "Write a comment first.")
    check_text(text, most=MAX_COMMENT, what="comment")
    with transaction.atomic():
        escalation = _lock_open(escalation_id, by, at=at)
        words = redact_words(escalation.run, text.strip())
        if _is_told_again(escalation, COMMENTED, by, comment=words):
            return
        _tell_of(escalation, COMMENTED, by, at, comment=words)


# Save an address of the queue under a name, for oneself or for a workspace.
_MAX_NAME = 40  # characters
_MAX_QUERY = 1000
MOST = 30  # of one person


def save_view(
    *, by: User, name: str, query: str, at: datetime, workspace: Workspace | None = None
) -> SavedView:
    """Save a view, replacing one's own of that name. Raises Refused.

    With a workspace its members see it too; only a person who may decide there can share one.
    """
    name = " ".join(name.split())
    if not name or len(name) > _MAX_NAME:
        raise Refused("bad_name", f"Give the view a name of at most {_MAX_NAME} characters.")
    check_text(name, most=_MAX_NAME, what="name")
    if len(query) > _MAX_QUERY:
        raise Refused("long_query", "This filter is too long to save.")
    for part in Membership.objects.filter(user=by).select_related("workspace__policy"):
        if redact_in(part.workspace, [name, query]) != [name, query]:
            raise Refused("masked", "A view is kept as typed: leave out what the policy masks.")
    if workspace:
        require_member(workspace, by, *DECIDES)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=by.pk)  # one at a time, so that MOST holds
        own = SavedView.objects.filter(owner=by)
        if not own.filter(name=name).exists() and own.count() >= MOST:
            raise Refused("many_views", f"You have saved {MOST} views. Delete one first.")
        values = {"query": query, "workspace": workspace, "created_at": at}
        return own.update_or_create(owner=by, name=name, defaults=values)[0]


def delete_view(*, view: SavedView, by: User) -> None:
    """Delete one's own view or, as an admin, a shared one. Raises Refused."""
    is_admin = Membership.objects.filter(
        workspace=view.workspace, user=by, role=Role.ADMIN
    ).exists()
    if view.owner_id != by.pk and not (view.workspace_id and is_admin):
        raise Refused("not_yours", "Only the person who shared a view, or an admin, can delete it.")
    view.delete()


# Common parts: lock a request, and record what was done with it.
_MISPLACED = (
    "Data of this request was changed to point at another run or workspace, so nobody can decide "
    "it. Run manage.py verify_audit."
)


def _lock_open(pk: int, by: User | None, *, at: datetime) -> Escalation:
    """Lock an open escalation, after its run as everywhere. Raises Refused.

    `by` must be a person who may decide; None is the engine.
    """
    run_id = Escalation.objects.values_list("run_id", flat=True).get(pk=pk)
    run = Run.objects.select_related("policy").select_for_update(of=("self",)).get(pk=run_id)
    whole = Escalation.objects.select_related("workspace", "step", "claimed_by", "assigned_to")
    escalation = whole.filter(request_belongs(), pk=pk).first()
    if escalation is None:
        raise Refused("misplaced", _MISPLACED)
    escalation.run = run
    if by:
        require_member(escalation.workspace, by, *DECIDES)
    if (state := EscalationState(escalation.state)) != EscalationState.OPEN:
        raise Refused("not_open", f"This request is no longer open: it is {state.word}.")
    if escalation.frozen_at is None and escalation.expires_at <= at:
        raise Refused("not_open", "The request has expired and can no longer be decided.")
    return escalation


def _wait_for_part(escalation: Escalation, user: User) -> None:
    """Lock a person's membership against removal, waiting for one under way."""
    part = Membership.objects.filter(workspace=escalation.workspace_id, user=user)
    list(part.select_for_update(no_key=True))


def _tell_of(
    escalation: Escalation, kind: str, by: User | None, at: datetime, **facts: Json
) -> None:
    """Record a person's action on a request; None is the engine."""
    about = {"escalation": escalation.pk, "key": escalation.step.key, **facts}
    escalation.run.say(kind, at=at, facts=about, actor=by.get_username() if by else "")


def _is_told_again(escalation: Escalation, kind: str, by: User, **facts: Json) -> bool:
    """Tell whether the newest event of a kind is the same action by `by`: a form sent twice."""
    about = Event.objects.filter(run=escalation.run, kind=kind, facts__escalation=escalation.pk)
    before = about.prefetch_related("texts").order_by("seq").last()
    if before is None or before.actor != by.get_username():
        return False
    return {name: facts_of(before).get(name) for name in facts} == facts


# A decision's locks and reads, in one round trip: plain queries would take ten times as long.


class _LockedEscalation(NamedTuple):
    """A request with its run and workspace locked, and the data for a decision."""

    escalation: Escalation
    steps: list[Step]  # of its run, but questions to a model
    memberships: list[Membership]  # of the person in its workspace: one or none
    standing: list[KillSwitch]  # in its workspace


def lock_escalation(pk: int, by: User) -> _LockedEscalation:
    """Lock an escalation's run, then its workspace.

    The escalation's `run` with its policy, `step` and `workspace` are loaded too. Raises
    DoesNotExist, and Refused if one of them belongs elsewhere.
    """
    with pipeline():
        run = _RUN.fetch(pk=pk)
        escalations, steps = _ESCALATION.fetch(pk=pk), _STEPS.fetch(pk=pk)
        # After the workspace's lock, which role changes and kill switches take too: a later
        # decision sees them.
        memberships, standing = _MEMBER.fetch(pk=pk, user=by.pk), _STANDING.fetch(pk=pk)
    escalation = next(iter(escalations.get()), None)
    if escalation is None:
        raise Escalation.DoesNotExist
    [escalation.run] = run.get()
    if not vars(escalation).pop("is_placed"):
        raise Refused("misplaced", _MISPLACED)
    by_key = {step.pk: step for step in steps.get()}
    escalation.step = by_key[escalation.step_id]
    steps_of_run = list(by_key.values())
    return _LockedEscalation(escalation, steps_of_run, memberships.get(), standing.get())


def _own(column: str) -> QuerySet[Escalation, Any]:
    """Return a reference of the escalation as a subquery, for a query sent with its own."""
    return Escalation.objects.filter(pk=Param("pk")).values(column)


_ESCALATION = CompiledSelect(
    lambda: (
        Escalation.objects.filter(pk=Param("pk"))
        .select_related("workspace")
        .annotate(is_placed=ExpressionWrapper(request_belongs(), BooleanField()))
        .select_for_update(of=("workspace",), no_key=True)
    )
)
_RUN = CompiledSelect(
    lambda: (
        Run.objects.filter(pk__in=_own("run"))
        .select_related("policy")
        .select_for_update(of=("self",))
    )
)
# No rule sees what a model was asked, which is most of a long run.
_STEPS = CompiledSelect(
    lambda: Step.objects.filter(run__in=_own("run")).exclude(kind="ask").order_by("position")
)
_MEMBER = CompiledSelect(lambda: members(Param("user")).filter(workspace__in=_own("workspace")))
_STANDING = CompiledSelect(
    lambda: KillSwitch.objects.standing().filter(workspace__in=_own("workspace"))
)
