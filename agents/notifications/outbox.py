"""Send the outbox's messages, outside transactions, until they are delivered.

At least once: a worker that dies between sending and recording leaves a row that is sent again
under the same id. No run, decision or sweep waits for a server that is called here.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import uuid4

from django.db import DatabaseError
from django.db.models import F, Min, Q
from django.utils import timezone

from agents.core.notifications import GIVEN_UP, WHILE_OPEN, Kind, wait_after
from agents.engine.runtime.database import in_database
from agents.models import Delivery, DeliveryState
from agents.models.notifications import RECIPIENTS
from agents.notifications.channels import Message, NotDelivered, channel_of
from agents.notifications.fan_out import later_due, share_out, still_matters
from agents.notifications.messages import Note, note_of

log = logging.getLogger(__name__)

_PAUSE = 2.0  # seconds between two looks
AT_ONCE = 8  # messages under way in one worker, one to each recipient at a time
LEASE = timedelta(seconds=90)  # longer than any message may take
_Clock: TypeAlias = Callable[[], datetime]
_Recipient: TypeAlias = Mapping[str, int | None]


async def deliver_until(stop: asyncio.Event) -> None:
    """Address and send notifications until told to stop; failures are retried."""
    sender = _Sender()
    while not stop.is_set():
        begun = 0
        try:
            begun = await sender.begin()
        except DatabaseError:
            log.exception("Notifications could not be read")
        except Exception:
            log.exception("Notifications could not be sent")
        if not begun:
            await sender.pause(stop)


async def deliver_all(stop: asyncio.Event, now: _Clock = timezone.now) -> None:
    """Address and send notifications until nothing is due."""
    sender = _Sender(now)
    while not stop.is_set() and (await sender.begin() or sender.under_way):
        if sender.under_way:
            await sender.pause(stop)


class _Sender:
    """The messages that one worker sends at a time: none waits for another's recipient."""

    def __init__(self, now: _Clock = timezone.now) -> None:
        self.now = now
        self.under_way: dict[asyncio.Task[None], _Recipient] = {}

    async def begin(self) -> int:
        """Address notifications and begin to send due messages. Return how many there were."""
        busy = list(self.under_way.values())
        shared = await in_database(lambda: share_out(at=self.now()))
        messages = await in_database(lambda: take(at=self.now(), busy=busy))
        for message in messages:
            task = asyncio.create_task(_deliver(message, self.now))
            self.under_way[task] = message.first.recipient
        return shared + len(messages)

    async def pause(self, stop: asyncio.Event) -> None:
        """Wait until a message has ended, it is time to look again or the worker is to stop."""
        stopped = asyncio.create_task(stop.wait())
        waited = {stopped, *self.under_way}
        await asyncio.wait(waited, timeout=_PAUSE, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in [task for task in self.under_way if task.done()]:
            del self.under_way[task]


async def _deliver(message: Message, now: _Clock) -> None:
    fault: NotDelivered | None = None
    try:
        await channel_of(message.first).send(message, at=now())
    except NotDelivered as no:
        fault = no
    except Exception:  # retried with ever longer pauses, like any other
        log.exception("A notification could not be sent")
        fault = NotDelivered("a fault of the console", is_server=False)
    try:
        await in_database(lambda: record(message, fault, at=now()))
    except DatabaseError:  # sent again after LEASE, under the same id
        log.exception("A notification's result could not be recorded")


def take(*, at: datetime, busy: Sequence[_Recipient] = ()) -> list[Message]:
    """Take due messages for LEASE: one per recipient who is not busy, the longest due first."""
    waiting = Delivery.objects.filter(state=DeliveryState.WAITING, next_at__lte=at)
    for recipient in busy:
        [(name, key)] = [(name, key) for name, key in recipient.items() if key is not None]
        waiting = waiting.exclude(**{f"{name}__isnull": False, name: key})
    # By recipient, so that none waits behind another's messages.
    of_each = waiting.values(*RECIPIENTS).annotate(first=Min("next_at"))
    due = list(of_each.order_by("first", *RECIPIENTS)[: max(0, AT_ONCE - len(busy))])
    taken = [_take({name: one[name] for name in RECIPIENTS}, at=at) for one in due]
    return [message for message in taken if message]


def _take(recipient: _Recipient, *, at: datetime) -> Message | None:
    """Take one message of a recipient; None if another worker has it or it is out of date."""
    mine = Delivery.objects.filter(state=DeliveryState.WAITING, next_at__lte=at, **recipient)
    first = mine.order_by("next_at", "pk").first()
    if first is None:
        return None
    channel = channel_of(first)
    mine = mine.filter(message=first.message, channel=first.channel)
    if first.message is None:
        keys = mine.order_by("due_at", "pk").values_list("pk", flat=True)
        mine = mine.filter(pk__in=list(keys[: channel.most if first.user_id else 1]))
    taken, name = first.message or uuid4(), first.channel or channel.name
    if not mine.update(message=taken, channel=name, next_at=at + LEASE, tries=F("tries") + 1):
        return None
    whole = Delivery.objects.filter(message=taken, state=DeliveryState.WAITING)
    rows = list(
        whole.select_related(*RECIPIENTS, "notification__workspace")
        .select_related("notification__run__policy", "notification__escalation__assigned_to")
        .select_related("notification__escalation__assigned_team")
        .select_related("notification__escalation__approval__by")
        .select_related("notification__escalation__decided_by")
        .order_by("due_at", "pk")
    )
    now = [row for row in rows if not _drop(row, at=at) and not _put_off(row, at=at)]
    kept = [(row, note) for row in now if (note := _note(row, at=at))]
    return Message(taken, kept[0][0], [note for _, note in kept]) if kept else None


def _note(row: Delivery, *, at: datetime) -> Note | None:
    """Return a row's note. If a desk's own words fail, only this row is given up."""
    try:
        return note_of(row.notification)
    except Exception:
        log.exception("A notification could not be worded")
        Delivery.objects.filter(pk=row.pk).update(
            state=DeliveryState.FAILED, fault="it could not be worded", ended_at=at
        )
        return None


def _drop(row: Delivery, *, at: datetime) -> bool:
    """Drop a message that is out of date or no longer for its recipient. Return whether it did."""
    request, why = row.notification.escalation, channel_of(row).why_not(row)
    if not why and not still_matters(row.notification, at=at):
        waits = request is not None and row.notification.kind in WHILE_OPEN
        why = "the request no longer waits for anybody" if waits else "it was seen to meanwhile"
    if why:
        Delivery.objects.filter(pk=row.pk).update(
            state=DeliveryState.DROPPED, fault=why, ended_at=at
        )
    return bool(why)


def _put_off(row: Delivery, *, at: datetime) -> bool:
    """Postpone a message whose deadline a kill switch has moved. Return whether it did.

    A message that was tried before may have arrived and keeps its id.
    """
    kind, request = row.notification.kind, row.notification.escalation
    is_first = request is not None and row.tries == 1
    later = later_due(Kind(kind), request, at=at) if is_first else None
    if later is not None:
        mine = Delivery.objects.filter(pk=row.pk)
        mine.update(message=None, next_at=later, due_at=later, tries=0)
    return later is not None


def record(message: Message, fault: NotDelivered | None, *, at: datetime) -> None:
    """Record the result of a message and, if it failed, when to try again."""
    rows = Delivery.objects.filter(message=message.id, state=DeliveryState.WAITING)
    if fault is None:
        rows.update(state=DeliveryState.SENT, ended_at=at, fault="")
        return
    first = message.first
    again = at + wait_after(first.tries)
    rows.update(next_at=again, fault=fault.fault)
    if first.tries == 1:  # tries end a day from now, however long there was no worker
        rows.update(due_at=at)
    is_over = first.tries > 1 and first.due_at < at - GIVEN_UP
    over = rows if fault.is_final or is_over else rows.none()
    given_up = over.update(state=DeliveryState.FAILED, fault=fault.fault, ended_at=at)
    if fault.is_server:
        waiting = Delivery.objects.filter(state=DeliveryState.WAITING)
        theirs = waiting.filter(**channel_of(first).same_server(first))
        if is_over:  # messages as old; one being sent now has its own result
            idle = theirs.filter(Q(message=None) | Q(next_at__lte=at))
            gone = idle.filter(due_at__lt=at - GIVEN_UP)
            gone.update(state=DeliveryState.FAILED, fault=fault.fault, ended_at=at)
        theirs.filter(next_at__lt=again).update(next_at=again)  # nothing is sent there before
    log.warning(
        "A notification was not delivered (%s); %s",
        fault.fault,
        "it is given up" if given_up else "it is tried again",
    )
