"""Address notifications: one row of the outbox for each recipient.

Every worker does this. A conditional update of the notification's row decides which one, in the
transaction that adds the outbox rows; a key for each recipient prevents a second message.
Recipients are chosen in that transaction, by the preferences that are set here too.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef

from agents.core.limits import BadPolicy
from agents.core.notifications import (
    DAY,
    UNKNOWN,
    UNTOLD,
    WHILE_OPEN,
    Hours,
    Kind,
    Mode,
    Occurrence,
    Person,
    half_time,
    last_call,
    mode_of,
    recipients,
    send_at,
)
from agents.core.requests import EffectState, EscalationState
from agents.engine.deciders import deciders, parties_of, people_who_may, roster_of
from agents.engine.tools.attention import attention_of, is_asked_again, untold_effects
from agents.models import (
    DECIDES,
    Delivery,
    DeliveryState,
    Effect,
    Escalation,
    Membership,
    Notification,
    NotificationPreference,
    PolicyDraft,
    Role,
    Run,
    Snooze,
    Workspace,
)
from agents.notifications.channels import Destination, channel_of_member, channels, notify_one
from agents.shell.refusal import Refused, require_member

log = logging.getLogger(__name__)

BATCH = 100  # notifications addressed at a time
KEPT = timedelta(days=30)  # the reach of the delivery log
_FORGOTTEN = 500  # rows deleted at a time
_PAUSED = timedelta(minutes=1)  # between two looks at a stopped clock
MINUTE = 60.0  # seconds between two searches for news without events
_LOOK_BACK = timedelta(days=1)

_looked_at = -MINUTE


class _Circle(NamedTuple):
    """The possible recipients in a workspace."""

    people: list[Person]
    destinations: list[Destination]


_CircleOf: TypeAlias = Callable[[int], _Circle]


def share_out(*, at: datetime) -> int:
    """Address due notifications, or postpone them. Return how many there were."""
    _look_around(at=at)
    due = Notification.objects.filter(addressed_at=None, due_at__lte=at)
    due = due.select_related("run__policy", "escalation__approval").order_by("due_at", "pk")
    circle_of = cache(_circle_of)  # each workspace is read once
    return sum(_share_or_wait(one, circle_of, at=at) for one in due[:BATCH])


def _share_or_wait(notification: Notification, circle_of: _CircleOf, *, at: datetime) -> int:
    try:
        return _share(notification, circle_of, at=at)
    except DatabaseError:
        raise
    except Exception:  # an unreadable one must not hold up the others
        log.exception("Notification %s could not be addressed", notification.pk)
        Notification.objects.filter(pk=notification.pk).update(due_at=at + _PAUSED)
        return 1


def _look_around(*, at: datetime) -> None:
    """Once a minute, create notifications that no event triggers and delete old ones."""
    global _looked_at
    if time.monotonic() - _looked_at < MINUTE:
        return
    _looked_at = time.monotonic()
    sent = Notification.objects.filter(kind=Kind.ATTENTION, detail=UNTOLD)
    known = sent.filter(run=OuterRef("run_id"))
    untold = untold_effects(since=at - _LOOK_BACK).filter(~Exists(known)).select_related("run")
    # Two workers may both create it: its key prevents a second message.
    Notification.objects.bulk_create(
        Notification(
            workspace_id=effect.run.workspace_id,
            kind=Kind.ATTENTION,
            about=f"run:{effect.run_id}",
            detail=UNTOLD,
            run=effect.run,
            due_at=at,
        )
        for effect in untold[:BATCH]
    )
    old = Notification.objects.filter(addressed_at__lt=at - KEPT).exclude(
        deliveries__state=DeliveryState.WAITING
    )
    keys = list(old.order_by("addressed_at").values_list("pk", flat=True)[:_FORGOTTEN])
    Notification.objects.filter(pk__in=keys).delete()


def _share(notification: Notification, circle_of: _CircleOf, *, at: datetime) -> int:
    request, kind = notification.escalation, Kind(notification.kind)
    mine = Notification.objects.filter(pk=notification.pk, addressed_at=None)
    if (later := later_due(kind, request, at=at)) is not None:
        mine.update(due_at=later)
        return 1  # done: a thousand stopped clocks must not hold up the others
    deliveries, following = [], []
    if still_matters(notification, at=at):
        deliveries = list(_deliveries(notification, circle_of, at=at))
        following = list(_following(notification)) if kind is Kind.OPENED else []
    with transaction.atomic():
        if not mine.update(addressed_at=at):
            return 0  # another worker did it
        Notification.objects.bulk_create(following)
        Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
    return 1


def later_due(kind: Kind, request: Escalation | None, *, at: datetime) -> datetime | None:
    """Return when to look again at a request whose deadline a kill switch stops or moves."""
    if kind is Kind.NOT_CARRIED_OUT and request is not None and is_asked_again(request):
        return at + _PAUSED  # its reviewers were told, and those of its successor can answer
    due = _DUE.get(kind)
    if due is None or request is None or request.state != EscalationState.OPEN:
        return None
    if request.frozen_at is not None:
        return at + _PAUSED
    moved = due(request.created_at, request.expires_at)
    return moved if moved > at else None


_DUE = {Kind.HALF_TIME: half_time, Kind.EXPIRING: last_call}


def still_matters(notification: Notification, *, at: datetime) -> bool:
    """Tell whether there is still something to do."""
    request, kind = notification.escalation, notification.kind
    if request is not None and kind in WHILE_OPEN:
        until = request.claimed_until
        is_held = kind == Kind.HALF_TIME and until is not None and until > at
        lacks_first = kind == Kind.SECOND and request.approval_id is None
        return request.state == EscalationState.OPEN and not (is_held or lacks_first)
    if request is not None and kind == Kind.NOT_CARRIED_OUT:
        return attention_of(request).exists()
    if request is not None and kind == Kind.ASKED_AGAIN:
        return is_asked_again(request)
    if kind == Kind.DRAFT:
        return PolicyDraft.objects.filter(pk=notification.detail, asked_at__isnull=False).exists()
    if kind != Kind.ATTENTION:
        return True
    ours = {"run": notification.run_id}
    if notification.detail == UNKNOWN:
        return Effect.objects.unsettled().filter(**ours, state=EffectState.UNKNOWN).exists()
    if notification.detail == UNTOLD:
        return untold_effects(since=at - KEPT).filter(**ours).exists()
    return True


def _following(opened: Notification) -> Iterator[Notification]:
    """Return the later notifications of a request that has just opened."""
    request = opened.escalation
    if request is None:
        return
    for kind, due in _DUE.items():
        yield Notification(
            workspace_id=opened.workspace_id,
            kind=kind,
            about=opened.about,
            run_id=opened.run_id,
            escalation=request,
            due_at=due(request.created_at, request.expires_at),
        )


def _deliveries(
    notification: Notification, circle_of: _CircleOf, *, at: datetime
) -> Iterator[Delivery]:
    kind, about = Kind(notification.kind), f"{notification.kind}:{notification.about}"
    circle = circle_of(notification.workspace_id)
    row = {"workspace_id": notification.workspace_id, "notification": notification, "key": about}
    run, request = notification.run, notification.escalation
    decide, grant = _able(request, run)
    people = [
        replace(one, may_decide=one.user in decide, may_grant=one.user in grant)
        for one in circle.people
    ]
    for person in recipients(_case(notification, people, at=at), people):
        when = send_at(mode_of(kind, person.modes), person.hours, at)
        channel = channel_of_member(person.channel).name
        yield Delivery(**row, user_id=person.user, channel=channel, due_at=when, next_at=when)
    for one in circle.destinations:
        if kind in one.kinds and one.team in (None, request and request.assigned_team_id):
            yield Delivery(**row, **one.columns, due_at=at, next_at=at)


def _able(request: Escalation | None, run: Run | None) -> tuple[set[int], set[int]]:
    """Return who may decide a request, and which of them may grant all of it."""
    if request is None or run is None:
        return set(), set()
    request.run = run  # which was read with its policy
    try:
        roster = roster_of(request)
        able = {one.user_id for one in deciders(request, roster)}
        return able, {one.user_id for _, one in people_who_may(request, roster)}
    except BadPolicy:  # nobody can decide it, which someone has to mend
        parts = Membership.objects.filter(workspace=request.workspace_id, role__in=DECIDES)
        able = set(parts.values_list("user", flat=True)) - parties_of(run)
        return able, able


def _case(notification: Notification, people: list[Person], *, at: datetime) -> Occurrence:
    run, request = notification.run, notification.escalation
    snoozes = Snooze.objects.filter(escalation=request, until__gt=at)
    is_half = notification.kind == Kind.HALF_TIME
    snoozed = snoozes.values_list("user", flat=True) if is_half else ()
    return Occurrence(
        Kind(notification.kind),
        launcher=run.launched_by_id if run else None,
        decided_by=request.decided_by_id if request else None,
        assigned_to=request.assigned_to_id if request else None,
        assigned_team=request.assigned_team_id if request else None,
        done_by=next((one.user for one in people if one.name == notification.actor), None),
        snoozed_by=frozenset(snoozed),
    )


def _circle_of(workspace: int) -> _Circle:
    """Return the members with their preferences, and the other recipients."""
    rows = {row.user_id: row for row in NotificationPreference.objects.filter(workspace=workspace)}
    common = rows.get(None) or NotificationPreference(workspace_id=workspace)
    parts = Membership.objects.filter(workspace=workspace, user__is_active=True, is_simulated=False)
    parts = parts.select_related("user").prefetch_related("teams").order_by("pk")
    people = [_person(part, rows.get(part.user_id, common)) for part in parts]
    others = [to for channel in channels() for to in channel.destinations(workspace)]
    return _Circle(people, others)


def _person(part: Membership, chosen: NotificationPreference) -> Person:
    return Person(
        part.user_id,
        part.role,
        part.user.username,
        teams=frozenset(team.pk for team in part.teams.all()),
        modes=chosen.modes,
        hears_all=chosen.hears_all,
        hours=chosen.hours,
        channel=chosen.channel,
    )


def tell_admins(workspace: Workspace, kind: str, of: User, *, at: datetime) -> None:
    """Tell a workspace's other admins of what a person did, whatever they chose to hear."""
    what = f"{of.get_username()} {at.isoformat()}"
    for one in _circle_of(workspace.pk).people:
        if one.role == Role.ADMIN and one.user != of.pk:
            channel = channel_of_member(one.channel).name
            to: dict[str, Any] = {"user": User(pk=one.user), "channel": channel}
            notify_one(workspace=workspace, kind=kind, what=f"{what} {one.user}", at=at, **to)


def set_preference(
    *,
    workspace: Workspace,
    by: User,
    modes: Mapping[Kind, Mode],
    hours: Hours,
    at: datetime,
    hears_all: bool = False,
    is_for_all: bool = False,
    channel: str = "",
) -> None:
    """Set a person's preferences, or as an admin the workspace's defaults. Raises Refused."""
    require_member(workspace, by, *((Role.ADMIN,) if is_for_all else Role))
    minutes = (hours.digest_at, hours.quiet_from or 0, hours.quiet_until or 0)
    if not all(0 <= minute < DAY for minute in minutes):
        raise Refused("bad_hours", "Enter a time of day, such as 22:00.")
    if channel and channel_of_member(channel).name != channel:
        raise Refused("no_channel", "Choose how messages are sent.", field="channel")
    columns = {
        "modes": {kind.value: mode.value for kind, mode in modes.items()},
        "hears_all": hears_all,
        **asdict(hours),
        "channel": channel,
    }
    whom = None if is_for_all else by
    with transaction.atomic():
        NotificationPreference.objects.update_or_create(
            workspace=workspace, user=whom, defaults=columns
        )
        facts = {"of": by.get_username() if whom else "", **columns}
        workspace.say("notifications.set", at=at, facts=facts, actor=by.get_username())
