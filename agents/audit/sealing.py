"""Seal the record: what is new in every chain goes into a head, in the database and outside it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, DataError, IntegrityError, connection, transaction
from django.db.models import Max

from agents.audit import heads_file, seals
from agents.audit.chain import name_of, spelled
from agents.models import Event, Head, Run, Sealed, Workspace

EVENTS = 10_000  # in one head at most; what is more goes into the next one
CHUNK = 500  # rows in memory at once

_looked_at: datetime | None = None  # when this process last sealed what was due


class NoKey(Exception):
    """This process has no key to seal with, on purpose."""


class HeadsDiffer(Exception):
    """The database has not the head that was kept outside it: an older copy, or another one."""


def keys() -> dict[str, str]:
    """Return the keys that check seals, by their ids."""
    given = [settings.OPSCONSOLE_AUDIT_KEY, *settings.OPSCONSOLE_AUDIT_OLD_KEYS]
    return {seals.key_id(key): key for key in given if key}


def seal_when_due(*, at: datetime) -> int:
    """Seal if the newest head is OPSCONSOLE_SEAL_SECONDS old. Return the number of new heads.

    A process looks once in that time: where nothing is new, the newest head only grows older.
    """
    global _looked_at
    period = timedelta(seconds=settings.OPSCONSOLE_SEAL_SECONDS)
    if not settings.OPSCONSOLE_AUDIT_KEY:
        return 0
    if not period or (_looked_at and _looked_at <= at < _looked_at + period):
        return 0
    newest = Head.objects.order_by("-number").first()
    if newest and at - newest.at < period:
        return 0
    made = seal(at=at)
    _looked_at = at
    return len(made)


def seal(*, at: datetime, begin_file: bool = False) -> list[seals.Head]:
    """Seal all that is new; no head is made of nothing.

    The database comes first. What a crash keeps from the file is written there by the next seal.
    A file that is gone is begun anew only where `begin_file` says so. Raises NoKey, HeadsDiffer,
    Unreadable, OSError.
    """
    if not settings.OPSCONSOLE_AUDIT_KEY:
        raise NoKey("This process has no key (OPSCONSOLE_AUDIT_KEY is none): it seals nothing.")
    made: list[seals.Head] = []
    with heads_file.opened(settings.OPSCONSOLE_HEADS_FILE) as kept:
        last = kept.newest()
        try:
            _compare(last, begin_file)
            settled = _settled()
            while head := _seal_once(at, settled):
                made.append(head)
        except (AttributeError, KeyError, TypeError, ValueError, DataError) as error:
            raise HeadsDiffer(
                "A head or an event in the database cannot be read: nothing is sealed. "
                "Run manage.py verify_audit, which names it."
            ) from error
        unkept = Head.objects.filter(number__gt=last.number if last else 0)
        kept.add(head.plain() for head in unkept.order_by("number").iterator(100))
    return made


def _compare(last: seals.Head | None, begin_file: bool) -> None:
    """Refuse to seal a database that has not the newest head outside it. Raises HeadsDiffer."""
    if last is None:
        # A crash between database and file can lose the first head; more were taken away.
        if not begin_file and (count := Head.objects.filter(number__gt=1).count()):
            raise HeadsDiffer(
                f"The file of heads is gone or empty, and this database has {count + 1}: nothing "
                "is sealed, because nothing would tell an older copy of it. Put the file back; or "
                "run manage.py verify_audit with a copy kept elsewhere, and then "
                "manage.py seal_audit --begin-file."
            )
        return
    stored = Head.objects.filter(number=last.number).first()
    if stored is None or stored.plain() != last:
        raise HeadsDiffer(
            f"Head {last.number} is kept outside this database, which does not have it: it is an "
            "older copy or another one, and nothing is sealed. Run manage.py verify_audit; after "
            "a restore that was meant, put the file of heads aside, keep it, and run "
            "manage.py seal_audit --begin-file."
        )


def _seal_once(at: datetime, settled: int | None) -> seals.Head | None:
    """Make the next head of at most EVENTS events. None: nothing is new, or somebody else did."""
    # Read before the events: who seals them meanwhile takes the number, and we write nothing.
    newest = Head.objects.order_by("-number").first()
    since = (newest.upto or 0) if newest else 0
    if not Event.objects.filter(pk__gte=since).exists():  # no seal covers `upto`: do not trust it
        since = 0
    grown, seen = _grown(since)
    if not grown:
        return None
    number, before = (newest.number + 1, newest.seal) if newest else (1, "")
    moved: dict[str, dict[str, list[str]]] = {}
    for chain in grown:
        moved.setdefault(str(chain.workspace), {})[chain.name] = chain.hashes
    earlier = _earlier() if newest and newest.workspaces is None else {}
    parts = {
        name: seals.part_of(moved.get(name, {}), earlier.get(name))
        for name in moved.keys() | earlier.keys()
    }
    bare = seals.Head(number, spelled(at), key="", before=before, moved={}, workspaces=parts)
    head = seals.sealed(bare, settings.OPSCONSOLE_AUDIT_KEY)
    reached = [Sealed(chain=chain.name, event_count=chain.upto) for chain in grown]
    try:
        with transaction.atomic():
            Head.objects.create(
                number=number,
                at=at,
                key=head.key,
                before=before,
                moved={},
                workspaces=parts,
                # What was under way while we read may still come with a lower key.
                upto=since if settled is None else min(seen, settled),
                seal=head.seal,
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


@dataclass
class _Chain:
    """A chain with events that no head covers."""

    name: str
    workspace: int
    run: UUID | None
    since: int  # the seq of the last event that is sealed
    events: list[tuple[int, str]]  # those after it: seq and hash, in order

    @property
    def hashes(self) -> list[str]:
        return [found for _, found in self.events]

    @property
    def upto(self) -> int:
        return self.events[-1][0]


def _grown(since: int) -> tuple[list[_Chain], int]:
    """Return the chains with events to seal, and the key up to which events were looked at.

    The cost is that of the events after the key `since`, however many chains there are.
    """
    found: dict[str, _Chain] = {}
    reach: dict[str, int] = {}
    covered = dict[str, str]()  # hash -> chain, of events that are said to be sealed
    count, seen = 0, since
    columns = ("pk", "workspace_id", "run_id", "seq", "hash")
    rows = Event.objects.filter(pk__gt=since).order_by("pk").values_list(*columns).iterator(CHUNK)
    while count < EVENTS and (some := list(islice(rows, min(CHUNK, EVENTS - count)))):
        names = [name_of(workspace=workspace, run=run) for _, workspace, run, *_ in some]
        unknown = set(names) - reach.keys()
        reach |= dict.fromkeys(unknown, 0) | _reached(unknown)
        for name, (seen, workspace, run, seq, hashed) in zip(names, some, strict=True):  # noqa: B007
            if seq > reach[name]:
                chain = found.setdefault(name, _Chain(name, workspace, run, reach[name], []))
                chain.events.append((seq, hashed))
                count += 1
            else:
                covered[hashed] = name
    _demand_heads(covered)
    return [_without_gaps(chain) for chain in found.values()], seen


def _demand_heads(covered: dict[str, str]) -> None:
    """Refuse to seal where `agents_sealed` counts events that no head has. Raises HeadsDiffer.

    That table is under no seal. Newest heads first: who tells the truth is soon believed.
    """
    heads = Head.objects.order_by("-number").iterator(10) if covered else ()
    for head in heads:
        for _, hashes in head.plain().chains():
            for hashed in hashes:
                covered.pop(hashed, None)
        if not covered:
            return
    if covered:
        name = min(covered.values())
        raise HeadsDiffer(
            f"The table agents_sealed counts events of {name} that no head has: nothing is "
            "sealed. Run manage.py verify_audit, and put the count right that it names."
        )


def _reached(names: Collection[str]) -> dict[str, int]:
    sealed = Sealed.objects.filter(chain__in=names)
    return dict(sealed.values_list("chain", "event_count"))


def _without_gaps(chain: _Chain) -> _Chain:
    """Return a chain whose events follow what is sealed; read them again where they do not."""
    chain.events.sort()
    wanted = range(chain.since + 1, chain.since + 1 + len(chain.events))
    if [seq for seq, _ in chain.events] != list(wanted):
        mine = Event.objects.filter(workspace=chain.workspace, run=chain.run)
        between = mine.filter(seq__gt=chain.since, seq__lte=chain.upto).order_by("seq")
        chain.events = list(between.values_list("seq", "hash"))
    return chain


def _settled() -> int | None:
    """Return the key up to which every event is here to be read, or None if nobody can tell.

    PostgreSQL gives out keys before transactions end. Who adds an event holds a lock on the table
    until then: once we have the other one, for a moment, all keys that were given out are settled.
    SQLite has one writer at a time.
    """
    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL lock_timeout = 100")  # milliseconds writers may wait
                    cursor.execute("LOCK TABLE agents_event IN SHARE MODE")
            return Event.objects.aggregate(newest=Max("pk"))["newest"] or 0
    except DatabaseError:
        return None


def _earlier() -> dict[str, list[str]]:
    """Return the chains of each workspace that heads of version 1 sealed; reads them all, once."""
    heads = Head.objects.filter(workspaces__isnull=True).values_list("moved", flat=True)
    chains = {chain for moved in heads.iterator(100) for chain in moved}
    found: dict[str, list[str]] = {}
    for pk in Workspace.objects.values_list("pk", flat=True):
        found.setdefault(str(pk), []).append(name_of(workspace=pk))
    for run, pk in Run.objects.values_list("pk", "workspace_id").iterator():
        found.setdefault(str(pk), []).append(name_of(workspace=pk, run=run))
    return {name: [chain for chain in mine if chain in chains] for name, mine in found.items()}
