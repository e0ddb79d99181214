"""Check the record: chains against themselves, against their seals, and rows against events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, DataError, connections
from django.db.models import QuerySet
from django.utils import timezone

from agents.audit import heads_file, protection, sealing, seals
from agents.audit.chain import link, name_of
from agents.audit.chain_faults import Fault, Linked, first_fault
from agents.audit.seals import first_unlike
from agents.audit.stored import rows_of_runs, rows_of_workspace, without_intent
from agents.audit.told import Row, Told
from agents.models import Event, Head, Run, Workspace
from agents.models import Sealed as Sealed_
from agents.models.event import hashed_parts, texts_of

KEPT = "heads kept elsewhere"
CHUNK = 500  # rows in memory at once
RUNS = 100  # whose events are in memory at once
LATE = timedelta(minutes=10)  # between what an event says and its seal, where nothing is wrong
# What a value raises that somebody put into a row and that is none of its column's.
UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, OverflowError, DataError)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
Owner = TypeVar("Owner", Run, Workspace)


@dataclass(frozen=True)
class Chain:
    """One chain of the record, checked from its first event to its head."""

    name: str
    fault: Fault | None
    of: str = "event"  # what the chain is made of
    differences: Sequence[str] = ()  # rows that hold something else than its events tell
    loose: Sequence[datetime] = ()  # when its events were that no head covers

    @property
    def holds(self) -> bool:
        return self.fault is None and not self.differences

    def __str__(self) -> str:
        if self.fault is None:
            return f"{self.name}: holds"
        if not self.fault.seq:  # it has no place in a chain
            return f"{self.name}: {self.fault.why}"
        return f"{self.name}: {self.of} {self.fault.seq}: {self.fault.why}"


@dataclass(frozen=True)
class Sealed:
    """What the heads say that can be trusted."""

    hashes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by chain
    bounds: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    newest: str = ""  # when the newest head was made

    @classmethod
    def by(cls, heads: Sequence[seals.Head]) -> Sealed:
        return cls(
            seals.sealed_hashes(heads),
            seals.bounds(heads, sealing.EVENTS),
            seals.homes(heads),
            heads[-1].at if heads else "",
        )


@dataclass(frozen=True)
class Proof:
    """What checking the record came to: how much was checked, and what does not hold."""

    chains: int
    heads: int
    keys: int  # that seals were checked with
    compared: int  # heads that are kept outside the database, too
    loose: int  # events that no head covers
    between: tuple[datetime, datetime] | None  # when they were: the first and the last
    faults: list[Chain]
    is_torn: bool = False  # the last line of the heads outside was left out

    def limits(self) -> list[str]:
        """Return in sentences what was compared, and what was not."""
        said = ["Nothing was compared with heads kept outside the database."]
        if self.compared:
            said = [f"{self.compared} heads were compared with those kept outside the database."]
        if self.is_torn:
            said.append("The last line of the heads outside has no end: it was left out.")
        if not self.keys:
            said.append("The seals were not checked: this process has no key.")
        if self.between:
            first, last = self.between
            span = f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
            said.append(f"{self.loose} events are in no seal yet, {span}.")
        return said


def prove(*, runs: QuerySet[Run], workspaces: QuerySet[Workspace], file: Path) -> Proof:
    """Check chains against themselves and against what was sealed, here and in `file`.

    Where all workspaces are checked, so is that no sealed chain is gone. It costs every event
    and every head.
    """
    # Before the database, which is written first: else a head of this moment would be missing.
    kept, is_torn, faults = _kept(file)
    stored, counts, unreadable = _stored()
    faults += unreadable
    if not kept and not faults and len(stored) > 1:
        why = f"the file is gone or empty, and the database has {len(stored)} heads"
        faults = [Chain(KEPT, Fault(0, why))]
    bad, trusted = seals.judged(stored, kept, sealing.keys())
    faults += [Chain("heads", fault, of="head") for fault in bad]
    if not bad:
        faults += _miscounted(counts, seals.sealed_hashes(stored))
    wrong = protection.faults(connections[DEFAULT_DB_ALIAS])
    faults += [Chain(name, Fault(0, why)) for name, why in sorted(wrong.items())]
    sealed, count, loose, ends = Sealed.by(trusted), 0, 0, list[datetime]()
    for chain in chains(runs, workspaces, sealed):
        count += 1
        loose += len(chain.loose)
        if chain.loose:
            ends = [min([*ends, *chain.loose]), max([*ends, *chain.loose])]
        faults += [chain] if chain.fault else []
        faults += [Chain(chain.name, Fault(0, why)) for why in chain.differences]
    if workspaces.count() == Workspace.objects.count():
        faults += _vanished(sealed.hashes)
        faults += [Chain(name, Fault(0, "no event tells of it")) for name in without_intent()]
    between = (ends[0], ends[1]) if ends else None
    return Proof(
        count, len(stored), len(sealing.keys()), len(kept), loose, between, faults, is_torn
    )


def _kept(file: Path) -> tuple[list[seals.Head], bool, list[Chain]]:
    """Return the heads outside the database, and why there are none where they are not readable."""
    try:
        return *(heads_file.read(file) if file.exists() else ([], False)), []
    except (heads_file.Unreadable, OSError) as error:
        return [], False, [Chain(KEPT, Fault(0, str(error)))]


def _stored() -> tuple[list[seals.Head], dict[str, int], list[Chain]]:
    """Return the heads, and how far `agents_sealed` says they reach, of one moment."""
    while True:
        counts = dict(Sealed_.objects.values_list("chain", "event_count"))
        heads, faults = _heads()
        again = dict(Sealed_.objects.values_list("chain", "event_count"))
        if counts == again:
            return heads, counts, faults


def _heads() -> tuple[list[seals.Head], list[Chain]]:
    """Return the heads that can be read, and those that cannot."""
    try:
        return [_whole(head) for head in Head.objects.order_by("number").iterator(CHUNK)], []
    except UNREADABLE:
        pass
    heads: list[seals.Head] = []
    faults: list[Chain] = []
    for number in Head.objects.order_by("number").values_list("number", flat=True):
        try:
            heads.append(_whole(Head.objects.get(number=number)))
        except UNREADABLE:
            faults.append(Chain("heads", Fault(number, "it cannot be read"), of="head"))
    return heads, faults


def _whole(head: Head) -> seals.Head:
    """Return a head that has the parts of one. Raises one of UNREADABLE."""
    return seals.from_line(json.loads(seals.as_line(head.plain())))


def _miscounted(counts: Mapping[str, int], sealed: Mapping[str, Sequence[str]]) -> Iterator[Chain]:
    """Yield the chains of which `agents_sealed` counts other events than the heads have."""
    for name in sorted(counts.keys() | sealed.keys()):
        said, wanted = counts.get(name, 0), len(sealed.get(name, ()))
        if said != wanted:
            why = f"agents_sealed counts {said} sealed events; the heads have {wanted}"
            yield Chain(name.replace("/", " "), Fault(0, why))


def _vanished(sealed: Mapping[str, Sequence[str]]) -> Iterator[Chain]:
    """Yield the chains that were sealed and of which not even the row is left."""
    runs = Run.objects.values_list("workspace_id", "pk").iterator()
    there = {name_of(workspace=workspace, run=run) for workspace, run in runs}
    there |= {name_of(workspace=pk) for pk in Workspace.objects.values_list("pk", flat=True)}
    for name in sorted(sealed.keys() - there):
        why = f"the chain is gone; {len(sealed[name])} events were sealed"
        yield Chain(name.replace("/", " "), Fault(1, why))


def chains(
    runs: QuerySet[Run], workspaces: QuerySet[Workspace], sealed: Sealed | None = None
) -> Iterator[Chain]:
    """Check the chain of each workspace and of each run, and the rows that their events tell of.

    The cost is every event of them, in a few queries for a hundred runs.
    """
    sealed = sealed or Sealed()
    for workspace in workspaces.select_related("policy").order_by("pk"):
        yield _readable(f"workspace {workspace.slug}", workspace, sealed)
    keys = runs.order_by("created_at", "pk").values_list("pk", flat=True).iterator(RUNS)
    while some := list(islice(keys, RUNS)):
        try:
            yield from list(_chains_of(some, sealed))
        except UNREADABLE:
            yield from (_readable(f"run {pk}", Run(pk=pk), sealed) for pk in some)


def _readable(shown: str, row: Run | Workspace, sealed: Sealed) -> Chain:
    """Check a chain; where it or a row of it cannot be read, say which event it is, if it is one"""
    try:
        if isinstance(row, Run):
            return _stable(row, lambda run: _run_chain(run, sealed))
        return _stable(row, lambda workspace: _workspace_chain(workspace, sealed))
    except UNREADABLE:
        pass
    events = (
        Event.objects.filter(run=row.pk) if isinstance(row, Run) else row.events.filter(run=None)
    )
    for seq in events.order_by("seq").values_list("seq", flat=True):
        try:
            event = events.get(seq=seq)
            link(event.previous, hashed_parts(event))
        except UNREADABLE:
            return Chain(shown, Fault(seq, "it cannot be read"))
    return Chain(shown, Fault(0, "a row of it cannot be read"))


def _chains_of(keys: Sequence[UUID], sealed: Sealed) -> Iterator[Chain]:
    found_runs = Run.objects.filter(pk__in=keys).select_related("launched_by", "policy")
    runs = list(found_runs.order_by("created_at", "pk"))
    events: dict[UUID, list[Event]] = {run.pk: [] for run in runs}
    found = Event.objects.filter(run__in=runs).order_by("run", "seq").prefetch_related("texts")
    for event in found.iterator(CHUNK):
        if event.run_id:
            events[event.run_id].append(event)
    rows = rows_of_runs(runs)
    for run in runs:
        name = name_of(workspace=run.workspace_id, run=run.pk)
        chain = _chain(f"run {run.pk}", name, run, events[run.pk], rows[run.pk], sealed)
        yield chain if chain.holds else _stable(run, lambda row: _run_chain(row, sealed))


def _stable(row: Owner, check: Callable[[Owner], Chain]) -> Chain:
    """Check a chain, and again if it has grown: rows and events must be of one moment."""
    while True:
        row = type(row)._default_manager.get(pk=row.pk)
        chain = check(row)
        now = type(row)._default_manager.values_list("event_count", flat=True).get(pk=row.pk)
        if chain.holds or now == row.event_count:
            return chain


def _workspace_chain(workspace: Workspace, sealed: Sealed) -> Chain:
    events = Event.objects.filter(workspace=workspace, run=None).order_by("seq")
    name = name_of(workspace=workspace.pk)
    rows = rows_of_workspace(workspace)
    read = events.prefetch_related("texts").iterator(CHUNK)
    return _chain(f"workspace {workspace.slug}", name, workspace, read, rows, sealed)


def _run_chain(run: Run, sealed: Sealed) -> Chain:
    events = Event.objects.filter(run=run).order_by("seq").prefetch_related("texts")
    name = name_of(workspace=run.workspace_id, run=run.pk)
    return _chain(f"run {run.pk}", name, run, events, rows_of_runs([run])[run.pk], sealed)


def _chain(
    shown: str,
    name: str,
    row: Run | Workspace,
    events: Iterable[Event],
    rows: Mapping[str, Row],
    sealed: Sealed,
) -> Chain:
    """Return a chain with the first event that does not fit, and the rows that are not as told."""
    reader = _Reader(row, sealed.bounds.get(name, []), sealed.newest)
    fault = first_fault(reader.read(events), count=row.event_count, head=row.head_hash)
    wanted = sealed.hashes.get(name, ())
    if fault is None:
        fault = first_unlike(reader.hashes, wanted) or reader.fault
    else:
        sound = fault.seq - 1
        fault = first_unlike(reader.hashes[:sound], wanted[:sound]) or fault
    home = sealed.homes.get(name)
    if fault is None and home not in (None, str(reader.workspace)):
        fault = Fault(1, f"it was sealed as a chain of workspace {home}")
    differences = [] if fault else [str(one) for one in reader.told.differences(rows)]
    return Chain(shown, fault, differences=differences, loose=reader.times[len(wanted) :])


class _Reader:
    """Reads the events of a chain once, for all who look at them."""

    def __init__(
        self, row: Run | Workspace, bounds: Sequence[tuple[int, str]], newest: str
    ) -> None:
        self.workspace = row.workspace_id if isinstance(row, Run) else row.pk
        self.bounds, self.newest = list(reversed(bounds)), newest
        self.now = timezone.now()
        self.hashes: list[str] = []
        self.times: list[datetime] = []
        self.fault: Fault | None = None
        self.told = Told()

    def read(self, events: Iterable[Event]) -> Iterator[Linked]:
        for event in events:
            self.hashes.append(event.hash)
            self.times.append(event.at)
            seq = len(self.hashes)
            if self.fault is None and event.workspace_id != self.workspace:
                self.fault = Fault(seq, "it is of another workspace than its chain")
            if self.fault is None and event.at > self.now + LATE:
                self.fault = Fault(seq, "it says that it is of the future")
            if self.fault is None and event.at < self.bound(seq):
                self.fault = Fault(seq, "it says that it is older than the head before its seal")
            found = Linked(hashed_parts(event), event.previous, event.hash, texts_of(event))
            self.told.take(found)
            yield found

    def bound(self, seq: int) -> datetime:
        """Return the time before which an event cannot be, by the heads."""
        while self.bounds and seq > self.bounds[-1][0]:
            self.bounds.pop()
        return _since(self.bounds[-1][1] if self.bounds else self.newest)


@lru_cache(8)
def _since(at: str) -> datetime:
    return datetime.fromisoformat(at) - LATE if at else LONG_AGO
