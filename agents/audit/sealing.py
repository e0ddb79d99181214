"""Seal the record: what is new in every chain goes into a head, in the database and outside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from agents.audit import heads_file, seals
from agents.audit.chain import name_of, spelled
from agents.models import Event, Head, Run, Sealed, Workspace

EVENTS = 10_000  # in one head at most; what is more goes into the next one

_looked_at: datetime | None = None  # when this process last sealed what was due


class HeadsDiffer(Exception):
    """The database has not the head that was kept outside it: an older copy, or another one."""


def keys() -> dict[str, str]:
    """Return the keys that check seals, by their ids."""
    given = [settings.OPSCONSOLE_AUDIT_KEY, *settings.OPSCONSOLE_AUDIT_OLD_KEYS]
    return {seals.key_id(key): key for key in given}


def seal_when_due(*, at: datetime) -> int:
    """Seal if the newest head is OPSCONSOLE_SEAL_SECONDS old. Return the number of new heads.

    A process looks once in that time: where nothing is new, the newest head only grows older,
    and looking reads a row of each chain.
    """
    global _looked_at
    period = timedelta(seconds=settings.OPSCONSOLE_SEAL_SECONDS)
    if not period or (_looked_at and _looked_at <= at < _looked_at + period):
        return 0
    newest = Head.objects.order_by("-number").first()
    if newest and at - newest.at < period:
        return 0
    made = seal(at=at)
    _looked_at = at
    return len(made)


def seal(*, at: datetime) -> list[seals.Head]:
    """Seal all that is new; no head is made of nothing. Raises HeadsDiffer, Unreadable, OSError.

    The database comes first. What a crash keeps from the file is written there by the next seal.
    """
    made: list[seals.Head] = []
    with heads_file.opened(settings.OPSCONSOLE_HEADS_FILE) as kept:
        last = kept.newest()
        _compare(last)
        while head := _seal_once(at):
            made.append(head)
        unkept = Head.objects.filter(number__gt=last.number if last else 0)
        kept.add(head.plain() for head in unkept.order_by("number").iterator(100))
    return made


def _compare(last: seals.Head | None) -> None:
    """Refuse to seal a database that has not the newest head outside it. Raises HeadsDiffer."""
    if last is None:
        return
    stored = Head.objects.filter(number=last.number).first()
    if stored is None or stored.plain() != last:
        raise HeadsDiffer(
            f"Head {last.number} is kept outside this database, which does not have it: it is an "
            "older copy or another one, and nothing is sealed. Run manage.py verify_audit; after "
            "a restore that was meant, put the file of heads aside and keep it."
        )


def _seal_once(at: datetime) -> seals.Head | None:
    """Make the next head of at most EVENTS events. None: nothing is new, or somebody else did."""
    # Read before the events: who seals them meanwhile takes the number, and we write nothing.
    newest = Head.objects.order_by("-number").first()
    moved, reached = _new_events()
    if not moved:
        return None
    number, before = (newest.number + 1, newest.seal) if newest else (1, "")
    bare = seals.Head(number=number, at=spelled(at), key="", before=before, moved=moved)
    head = seals.sealed(bare, settings.OPSCONSOLE_AUDIT_KEY)
    try:
        with transaction.atomic():
            Head.objects.create(
                number=number, at=at, key=head.key, before=before, moved=moved, seal=head.seal
            )
            Sealed.objects.bulk_create(
                reached,
                update_conflicts=True,
                unique_fields=["chain"],
                update_fields=["event_count"],
            )
    except IntegrityError:
        return None
    return head


@dataclass(frozen=True)
class _Grown:
    """A chain with events that no head covers: those after `since`, up to `count`."""

    name: str
    events: QuerySet[Event]
    since: int
    count: int


def _new_events() -> tuple[dict[str, list[str]], list[Sealed]]:
    """Return the hashes to seal by chain, and how far each chain is sealed then."""
    moved: dict[str, list[str]] = {}
    reached, room = [], EVENTS
    for grown in _grown():
        upto = min(grown.count, grown.since + room)
        found = grown.events.filter(seq__gt=grown.since, seq__lte=upto).order_by("seq")
        hashes = list(found.values_list("hash", flat=True))
        if not hashes:
            continue  # its events were taken away; verify_audit says so
        moved[grown.name] = hashes
        reached.append(Sealed(chain=grown.name, event_count=grown.since + len(hashes)))
        room -= len(hashes)
        if room <= 0:
            break
    return moved, reached


def _grown() -> Iterator[_Grown]:
    reach = dict(Sealed.objects.values_list("chain", "event_count"))
    for workspace in Workspace.objects.order_by("pk").only("event_count"):
        name = name_of(workspace=workspace.pk)
        if workspace.event_count > reach.get(name, 0):
            events = Event.objects.filter(workspace=workspace, run=None)
            yield _Grown(name, events, reach.get(name, 0), workspace.event_count)
    runs = Run.objects.order_by("created_at", "pk")
    for pk, workspace_pk, count in runs.values_list("pk", "workspace_id", "event_count").iterator():
        name = name_of(workspace=workspace_pk, run=pk)
        if count > reach.get(name, 0):
            yield _Grown(name, Event.objects.filter(run=pk), reach.get(name, 0), count)
