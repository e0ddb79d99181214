"""Check one chain after another: its events among themselves, against their seals, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist
from django.db import DataError
from django.db.models import QuerySet
from django.utils import timezone

from agents.audit import unsealed
from agents.audit.stored import rows_of_runs, rows_of_workspace
from agents.models import Event, Run, Workspace
from agents.models.event import hashed_parts, texts_of
from agents.record import seals
from agents.record.chain import link, name_of
from agents.record.chain_faults import Fault, Linked, first_fault
from agents.record.seals import first_unlike
from agents.record.told import Row, Told

CHUNK = 500  # rows in memory at once
RUNS = 100  # whose events are in memory at once
LATE = timedelta(minutes=10)  # between what an event says and its seal, where nothing is wrong
# What a value raises that does not belong in its column.
UNREADABLE = (
    *(AttributeError, KeyError, TypeError, ValueError, OverflowError, DataError),
    ObjectDoesNotExist,  # a row that is referred to is gone
)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
Owner = TypeVar("Owner", Run, Workspace)


@dataclass(frozen=True)
class Chain:
    """One chain of the record, checked from its first event to its head."""

    name: str
    fault: Fault | None
    of: str = "event"  # what the chain is made of
    differences: Sequence[str] = ()  # rows that hold something else than its events tell
    doubt: Fault | None = None  # the first event whose time cannot be right, where else it holds
    loose: Sequence[datetime] = ()  # when its events were that no head covers

    @property
    def holds(self) -> bool:
        return self.fault is None and self.doubt is None and not self.differences

    def __str__(self) -> str:
        if self.fault is None:
            return f"{self.name}: holds"
        if not self.fault.seq:  # it has no place in a chain
            return f"{self.name}: {self.fault.why}"
        return f"{self.name}: {self.of} {self.fault.seq}: {self.fault.why}"


@dataclass(frozen=True)
class TrustedHeads:
    """What the heads say that can be trusted."""

    hashes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by chain
    bounds: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    newest: str = ""  # when the newest head was made whose time is sure

    @classmethod
    def by(cls, heads: Sequence[seals.SealedHead]) -> TrustedHeads:
        return cls(
            seals.sealed_hashes(heads),
            seals.bounds(heads, unsealed.EVENTS, is_sure=_is_sure),
            seals.homes(heads),
            next((head.at for head in reversed(heads) if _is_sure(head.at)), ""),
        )


def chains(
    runs: QuerySet[Run], workspaces: QuerySet[Workspace], sealed: TrustedHeads | None = None
) -> Iterator[Chain]:
    """Check the chain of each workspace and of each run, and the rows that their events tell of.

    The cost is every event of them, in a few queries for a hundred runs.
    """
    sealed = sealed or TrustedHeads()
    for workspace in workspaces.select_related("policy", "book").order_by("pk"):
        yield _readable(f"workspace {workspace.slug}", workspace, sealed)
    keys = runs.order_by("created_at", "pk").values_list("pk", flat=True).iterator(RUNS)
    while some := list(islice(keys, RUNS)):
        try:
            yield from list(_chains_of(some, sealed))
        except UNREADABLE:
            yield from (_readable(f"run {pk}", Run(pk=pk), sealed) for pk in some)


def _readable(shown: str, row: Run | Workspace, sealed: TrustedHeads) -> Chain:
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


def _chains_of(keys: Sequence[UUID], sealed: TrustedHeads) -> Iterator[Chain]:
    found_runs = Run.objects.filter(pk__in=keys).prefetch_related("launched_by", "policy")
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


def _workspace_chain(workspace: Workspace, sealed: TrustedHeads) -> Chain:
    events = Event.objects.filter(workspace=workspace, run=None).order_by("seq")
    name = name_of(workspace=workspace.pk)
    rows = rows_of_workspace(workspace)
    read = events.prefetch_related("texts").iterator(CHUNK)
    return _chain(f"workspace {workspace.slug}", name, workspace, read, rows, sealed)


def _run_chain(run: Run, sealed: TrustedHeads) -> Chain:
    events = Event.objects.filter(run=run).order_by("seq").prefetch_related("texts")
    name = name_of(workspace=run.workspace_id, run=run.pk)
    return _chain(f"run {run.pk}", name, run, events, rows_of_runs([run])[run.pk], sealed)


def _chain(
    shown: str,
    name: str,
    row: Run | Workspace,
    events: Iterable[Event],
    rows: Mapping[str, Row],
    sealed: TrustedHeads,
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
    return Chain(
        shown,
        fault,
        differences=differences,
        doubt=None if fault else reader.doubt,
        loose=reader.times[len(wanted) :],
    )


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
        self.doubt: Fault | None = None
        self.told = Told()

    def read(self, events: Iterable[Event]) -> Iterator[Linked]:
        for event in events:
            self.hashes.append(event.hash)
            self.times.append(event.at)
            seq = len(self.hashes)
            if self.fault is None and event.workspace_id != self.workspace:
                self.fault = Fault(seq, "it is of another workspace than its chain")
            self.doubt = self.doubt or self.doubt_of(seq, event.at)
            found = Linked(hashed_parts(event), event.previous, event.hash, texts_of(event))
            self.told.take(found)
            yield found

    def doubt_of(self, seq: int, at: datetime) -> Fault | None:
        """Return why an event cannot be of this time: a forgery and a wrong clock look alike."""
        why = "it is of the future" if at > self.now + LATE else ""
        if at < self.bound(seq):
            why = "it is older than the head before its seal"
        if not why or is_of_wrong_clock(at):
            return None
        return Fault(seq, f"{why}: a clock was wrong, or its time was forged")

    def bound(self, seq: int) -> datetime:
        """Return the time before which an event cannot be, by the heads."""
        while self.bounds and seq > self.bounds[-1][0]:
            self.bounds.pop()
        return _since(self.bounds[-1][1] if self.bounds else self.newest)


def is_of_wrong_clock(at: datetime) -> bool:
    """Tell whether a clock that is known to have been wrong may have shown this time."""
    return any(since <= at <= until for since, until in settings.OPSCONSOLE_WRONG_CLOCKS)


def _is_sure(at: str) -> bool:
    return not is_of_wrong_clock(datetime.fromisoformat(at))


@lru_cache(8)
def _since(at: str) -> datetime:
    return datetime.fromisoformat(at) - LATE if at else LONG_AGO
