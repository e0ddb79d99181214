"""Check one chain after another: its events among themselves, against their seals, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist
from django.db import DataError
from django.db.models import QuerySet
from django.utils import timezone

from agents.audit.sealed_chains import SealedChains
from agents.audit.stored import rows_of_runs, rows_of_workspace
from agents.models import Event, Run, Workspace
from agents.models.event import hashed_parts, texts_of
from agents.record.chain import link, name_of
from agents.record.chain_faults import Fault, Linked, first_fault
from agents.record.told import Row, Told

CHUNK = 500  # rows in memory at once
RUNS, EVENTS = 100, 2_000  # that are in memory at once, but for a longer run
LATE = timedelta(minutes=10)  # between what an event says and its seal, where nothing is wrong
# What a value raises that does not belong in its column.
UNREADABLE = (
    *(AttributeError, KeyError, TypeError, ValueError, OverflowError, DataError),
    ObjectDoesNotExist,  # a row that is referred to is gone
)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
Step = Callable[[int], None]  # hears how many chains are done, and may raise to end it
Owner = TypeVar("Owner", Run, Workspace)


@dataclass(frozen=True)
class Chain:
    """One chain of the record, checked from its first event to its head."""

    name: str
    fault: Fault | None
    of: str = "event"  # what the chain is made of
    differences: Sequence[str] = ()  # rows that hold something else than its events tell
    doubt: Fault | None = None  # the first event whose time cannot be right, where else it holds
    loose: int = 0  # events that no head covers
    between: tuple[datetime, datetime] | None = None  # when they were: the first and the last

    @property
    def holds(self) -> bool:
        return self.fault is None and self.doubt is None and not self.differences

    def __str__(self) -> str:
        if self.fault is None:
            return f"{self.name}: holds"
        if not self.fault.seq:  # it has no place in a chain
            return f"{self.name}: {self.fault.why}"
        return f"{self.name}: {self.of} {self.fault.seq}: {self.fault.why}"


def no_step(done: int) -> None:
    """Hear nothing."""


def chains(
    runs: QuerySet[Run], workspaces: QuerySet[Workspace], sealed: SealedChains
) -> Iterator[Chain]:
    """Check the chain of each workspace and of each run, and the rows that their events tell of.

    The cost is every event of them, in a few queries for a hundred runs.
    """
    for workspace in workspaces.select_related("policy", "book").order_by("pk"):
        yield _readable(f"workspace {workspace.slug}", workspace, sealed)
    for some in in_groups(runs):
        try:
            yield from list(_chains_of(some, sealed))
        except UNREADABLE:
            yield from (_readable(f"run {pk}", Run(pk=pk), sealed) for pk in some)


def in_groups(runs: QuerySet[Run]) -> Iterator[list[UUID]]:
    """Yield the keys of runs in their order, so many together as may be in memory at once."""
    last, group, events = UUID(int=0), list[UUID](), 0
    sizes = runs.order_by("pk").values_list("pk", "event_count")
    while some := list(sizes.filter(pk__gt=last)[:CHUNK]):
        for pk, count in some:
            if group and (len(group) == RUNS or events + count > EVENTS):
                yield group
                group, events = [], 0
            group.append(pk)
            last, events = pk, events + count
    if group:
        yield group


def _readable(shown: str, row: Run | Workspace, sealed: SealedChains) -> Chain:
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


def _chains_of(keys: Sequence[UUID], sealed: SealedChains) -> Iterator[Chain]:
    found_runs = Run.objects.filter(pk__in=keys).prefetch_related("launched_by", "policy")
    runs = list(found_runs.order_by("pk"))
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


def _workspace_chain(workspace: Workspace, sealed: SealedChains) -> Chain:
    events = Event.objects.filter(workspace=workspace, run=None).order_by("seq")
    name = name_of(workspace=workspace.pk)
    rows = rows_of_workspace(workspace)
    read = events.prefetch_related("texts").iterator(CHUNK)
    return _chain(f"workspace {workspace.slug}", name, workspace, read, rows, sealed)


def _run_chain(run: Run, sealed: SealedChains) -> Chain:
    events = Event.objects.filter(run=run).order_by("seq").prefetch_related("texts")
    name = name_of(workspace=run.workspace_id, run=run.pk)
    return _chain(f"run {run.pk}", name, run, events, rows_of_runs([run])[run.pk], sealed)


def _chain(
    shown: str,
    name: str,
    row: Run | Workspace,
    events: Iterable[Event],
    rows: Mapping[str, Row],
    sealed: SealedChains,
) -> Chain:
    """Return a chain with the first event that does not fit, and the rows that are not as told."""
    reader = _Reader(row, sealed.of(name), sealed.newest)
    fault = first_fault(reader.read(events), count=row.event_count, head=row.head_hash)
    if fault is None:
        fault = reader.unlike or reader.cut or reader.fault
    elif reader.unlike and reader.unlike.seq < fault.seq:
        fault = reader.unlike
    home = sealed.home(name)
    if fault is None and home not in (None, str(reader.workspace)):
        fault = Fault(1, f"it was sealed as a chain of workspace {home}")
    differences = [] if fault else [str(one) for one in reader.told.differences(rows)]
    return Chain(
        shown,
        fault,
        differences=differences,
        doubt=None if fault else reader.doubt,
        loose=reader.loose,
        between=reader.between,
    )


class _Reader:
    """Reads the events of a chain once, for all who look at them, beside what was sealed of it."""

    def __init__(
        self, row: Run | Workspace, sealed: Iterator[tuple[str, str]], newest: str
    ) -> None:
        self.workspace = row.workspace_id if isinstance(row, Run) else row.pk
        self.sealed, self.newest = sealed, newest
        self.now = timezone.now()
        self.seq = self.loose = 0
        self.between: tuple[datetime, datetime] | None = None
        self.fault: Fault | None = None
        self.unlike: Fault | None = None  # the first event that is not the one that was sealed
        self.doubt: Fault | None = None
        self.told = Told()

    def read(self, events: Iterable[Event]) -> Iterator[Linked]:
        for event in events:
            self.seq += 1
            wanted, bound = next(self.sealed, (None, self.newest))
            if wanted is None:
                first, last = self.between or (event.at, event.at)
                self.loose, self.between = (
                    self.loose + 1,
                    (min(first, event.at), max(last, event.at)),
                )
            elif event.hash != wanted and self.unlike is None:
                self.unlike = Fault(self.seq, "it is not the event that was sealed")
            if self.fault is None and event.workspace_id != self.workspace:
                self.fault = Fault(self.seq, "it is of another workspace than its chain")
            self.doubt = self.doubt or self.doubt_of(self.seq, event.at, bound)
            found = Linked(hashed_parts(event), event.previous, event.hash, texts_of(event))
            self.told.take(found)
            yield found

    @property
    def cut(self) -> Fault | None:
        """Return where a chain ends that was sealed further, once all its events were read."""
        if left := sum(1 for _ in self.sealed):
            why = f"the chain ends after {self.seq} events; {self.seq + left} were sealed"
            return Fault(self.seq + 1, why)
        return None

    def doubt_of(self, seq: int, at: datetime, bound: str) -> Fault | None:
        """Return why an event cannot be of this time: a forgery and a wrong clock look alike."""
        why = "it is of the future" if at > self.now + LATE else ""
        if at < _since(bound):
            why = "it is older than the head before its seal"
        if not why or is_of_wrong_clock(at):
            return None
        return Fault(seq, f"{why}: a clock was wrong, or its time was forged")


def is_of_wrong_clock(at: datetime) -> bool:
    """Tell whether a clock that is known to have been wrong may have shown this time."""
    return any(since <= at <= until for since, until in settings.OPSCONSOLE_WRONG_CLOCKS)


def is_sure(at: str) -> bool:
    """Tell whether no clock that was wrong is known to have shown this time."""
    return not is_of_wrong_clock(datetime.fromisoformat(at))


@lru_cache(8)
def _since(at: str) -> datetime:
    return datetime.fromisoformat(at) - LATE if at else LONG_AGO
