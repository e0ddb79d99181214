"""Check each chain: its links, its events against their seals, and the rows they describe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db.models import QuerySet

from agents.audit.chain_reader import ChainReader
from agents.audit.rows_in_tables import rows_of_runs, rows_of_workspace
from agents.audit.sealed_chains import SealedChains
from agents.audit.tombstones import tombstones_of
from agents.models import Event, Run, Tombstone, Workspace
from agents.models.record import UNREADABLE, hashed_parts
from agents.record.chain import Fault, first_fault, link, name_of
from agents.record.rows_from_events import Row

CHUNK = 500  # rows in memory at once
RUNS, EVENTS = 100, 2_000  # in memory at once; a single longer run may exceed EVENTS
Step = Callable[[int], None]  # is called with the number of chains done; may raise to cancel
Owner = TypeVar("Owner", Run, Workspace)


@dataclass(frozen=True)
class Chain:
    """One chain of the record, checked from its first event to its head."""

    name: str
    fault: Fault | None
    of: str = "event"  # what the chain is made of
    differences: Sequence[str] = ()  # rows that disagree with its events
    doubt: Fault | None = None  # the first impossible time in an otherwise valid chain
    loose: int = 0  # events that no head covers
    first_loose: int | None = None  # the lowest key of them
    between: tuple[datetime, datetime] | None = None  # times of the first and last of them

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
    """Ignore progress."""


def chains(
    parts: Iterable[QuerySet[Run]],
    workspaces: QuerySet[Workspace],
    sealed: SealedChains,
    beat: Callable[[], None],
) -> Iterator[Chain]:
    """Check the chains of workspaces and runs, and the rows that their events describe.

    Reads every event, in a few queries per hundred runs. Calls `beat` now and then within a long
    chain.
    """
    for workspace in workspaces.select_related("policy", "book").order_by("pk"):
        yield _readable(f"workspace {workspace.slug}", workspace, sealed, beat)
    for some in (group for part in parts for group in in_groups(part)):
        try:
            yield from list(_chains_of(some, sealed))
        except UNREADABLE:
            yield from (_readable(f"run {pk}", Run(pk=pk), sealed, beat) for pk in some)


def in_groups(runs: QuerySet[Run]) -> Iterator[list[UUID]]:
    """Yield the keys of runs in ascending order, in groups that fit in memory (RUNS, EVENTS)."""
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


def _readable(
    shown: str, row: Run | Workspace, sealed: SealedChains, beat: Callable[[], None]
) -> Chain:
    """Check a chain. If part of it cannot be read, name the event or, failing that, a row."""
    try:
        if isinstance(row, Run):
            return _stable(row, lambda run: _run_chain(run, sealed))
        return _stable(row, lambda workspace: _workspace_chain(workspace, sealed, beat))
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
    rows, graves = rows_of_runs(runs), _graves(keys)
    for run in runs:
        grave = graves.get(run.pk)
        chain = _chain_of_run(run, events[run.pk], rows[run.pk], sealed, grave)
        yield chain if chain.holds else _stable(run, lambda row: _run_chain(row, sealed))


def _stable(row: Owner, check: Callable[[Owner], Chain]) -> Chain:
    """Check a chain; repeat if it grew or was archived meanwhile, so rows and events agree."""
    columns = ("event_count", "archived_at")[: 1 + isinstance(row, Run)]
    while True:
        row = type(row)._default_manager.get(pk=row.pk)
        chain = check(row)
        now = type(row)._default_manager.values_list(*columns).get(pk=row.pk)
        if chain.holds or now == tuple(getattr(row, name) for name in columns):
            return chain


def _workspace_chain(workspace: Workspace, sealed: SealedChains, beat: Callable[[], None]) -> Chain:
    events = Event.objects.filter(workspace=workspace, run=None).order_by("seq")
    name = name_of(workspace=workspace.pk)
    rows = rows_of_workspace(workspace)
    read = _beating(events.prefetch_related("texts").iterator(CHUNK), beat)
    return _chain(f"workspace {workspace.slug}", name, workspace, read, rows, sealed)


def _beating(events: Iterable[Event], beat: Callable[[], None]) -> Iterator[Event]:
    for number, event in enumerate(events, start=1):
        if not number % CHUNK:
            beat()
        yield event


def _run_chain(run: Run, sealed: SealedChains) -> Chain:
    events = Event.objects.filter(run=run).order_by("seq").prefetch_related("texts")
    rows, grave = rows_of_runs([run])[run.pk], _graves([run.pk]).get(run.pk)
    return _chain_of_run(run, list(events), rows, sealed, grave)


def _graves(runs: Sequence[UUID]) -> dict[UUID, tuple[Tombstone, bool]]:
    """Return each run's tombstone, and whether its remaining rows still match the digest."""
    graves = Tombstone.objects.select_related("archive").in_bulk(runs)
    digests = tombstones_of(graves)
    return {run: (grave, digests[run] == grave.sha256) for run, grave in graves.items()}


def _chain_of_run(
    run: Run,
    events: Sequence[Event],
    rows: Mapping[str, Row],
    sealed: SealedChains,
    grave: tuple[Tombstone, bool] | None,
) -> Chain:
    shown, name = f"run {run.pk}", name_of(workspace=run.workspace_id, run=run.pk)
    differences = []
    if grave and not grave[1]:
        differences = ["run: its remaining rows differ from when it was archived"]
    if grave and grave[0].archive.workspace_id != run.workspace_id:  # whose log tells of it
        differences.append("run: it is in the archive of another workspace")
    if grave and grave[0].event_count and not (events and events[0].seq == 1):
        cut = (grave[0].event_count, grave[0].head_hash)
        return _chain(shown, name, run, events, {}, sealed, differences, after=cut)
    if run.archived_at:
        differences.append("run: it is marked as archived, but is not")
    return _chain(shown, name, run, events, rows, sealed, differences)


def _chain(
    shown: str,
    name: str,
    row: Run | Workspace,
    events: Iterable[Event],
    rows: Mapping[str, Row],
    sealed: SealedChains,
    differences: Sequence[str] = (),
    after: tuple[int, str] = (0, ""),
) -> Chain:
    """Return a chain's first faulty event, and the rows that disagree with its events.

    `after` is the count and the last hash of the archived events, both bound by seals.
    """
    reader = ChainReader(row, sealed.of(name), sealed.newest)
    fault = reader.skip(*after)
    found = reader.read(events)
    fault = fault or first_fault(found, count=row.event_count, head=row.head_hash, after=after)
    if fault is None:
        fault = reader.unlike or reader.cut or reader.fault
    elif reader.unlike and reader.unlike.seq < fault.seq:
        fault = reader.unlike
    home = sealed.home(name)
    if fault is None and home not in (None, str(reader.workspace)):
        fault = Fault(1, f"it was sealed as a chain of workspace {home}")
    if fault is None and isinstance(row, Workspace) and not row.event_count:
        differences = ["workspace: no event records it"]
    elif fault is None and not after[0]:
        differences = [*differences, *map(str, reader.told.differences(rows))]
    return Chain(
        shown,
        fault,
        differences=() if fault else differences,
        doubt=None if fault else reader.doubt,
        loose=reader.loose,
        first_loose=reader.first_loose,
        between=reader.between,
    )
