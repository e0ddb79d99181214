"""Check each chain: its links, its events against their seals, and the rows they describe."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import BooleanField, F, Func, Model, QuerySet
from django.utils import timezone

from agents.audit.rows_in_tables import rows_of_runs, rows_of_workspace, tombstones_of
from agents.models import Event, Head, Run, Tombstone, Workspace
from agents.models.record import UNREADABLE, hashed_parts, texts_of
from agents.record.event_kinds import RecordedRows, Row
from agents.record.seals import Fault, Linked, SealedHead, first_fault, link, name_of

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
    sealed: "SealedChains",
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
    shown: str, row: Run | Workspace, sealed: "SealedChains", beat: Callable[[], None]
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


def _chains_of(keys: Sequence[UUID], sealed: "SealedChains") -> Iterator[Chain]:
    found_runs = Run.objects.filter(pk__in=keys).prefetch_related("launched_by", "policy")
    runs = list(found_runs.order_by("pk"))
    events: dict[UUID, list[Event]] = {run.pk: [] for run in runs}
    stored = Event.objects.filter(run__in=runs).order_by("run", "seq").prefetch_related("texts")
    for event in stored.iterator(CHUNK):
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


def _workspace_chain(
    workspace: Workspace, sealed: "SealedChains", beat: Callable[[], None]
) -> Chain:
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


def _run_chain(run: Run, sealed: "SealedChains") -> Chain:
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
    sealed: "SealedChains",
    grave: tuple[Tombstone, bool] | None,
) -> Chain:
    shown, name = f"run {run.pk}", name_of(workspace=run.workspace_id, run=run.pk)
    differences = []
    if grave and not grave[1]:
        differences = ["run: its remaining rows differ from when it was archived"]
    if grave and grave[0].archive.workspace_id != run.workspace_id:  # the log of its archive
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
    sealed: "SealedChains",
    differences: Sequence[str] = (),
    after: tuple[int, str] = (0, ""),
) -> Chain:
    """Return a chain's first faulty event, and the rows that disagree with its events.

    `after` is the count and the last hash of the archived events, both bound by seals.
    """
    reader = _ChainReader(row, sealed.of(name), sealed.newest)
    fault = reader.skip(*after)
    linked = reader.read(events)
    fault = fault or first_fault(linked, count=row.event_count, head=row.head_hash, after=after)
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
        differences = [*differences, *map(str, reader.recorded.differences(rows))]
    return Chain(
        shown,
        fault,
        differences=() if fault else differences,
        doubt=None if fault else reader.doubt,
        loose=reader.loose,
        first_loose=reader.first_loose,
        between=reader.between,
    )


# A chain's events are read alongside its seals, and their times are checked against the seals.


_LATE = timedelta(minutes=10)  # the longest normal delay between an event and its seal
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class _ChainReader:
    """Reads a chain's events once for all checks, comparing each with its seal."""

    def __init__(
        self, row: Run | Workspace, sealed: Iterator[tuple[str, str]], newest: str
    ) -> None:
        self.workspace = row.workspace_id if isinstance(row, Run) else row.pk
        self.sealed, self.newest = sealed, newest
        self.now = timezone.now()
        self.seq = self.loose = 0
        self.first_loose: int | None = None  # the lowest key of an event that no head covers
        self.between: tuple[datetime, datetime] | None = None
        self.fault: Fault | None = None
        self.unlike: Fault | None = None  # the first event that differs from the sealed one
        self.doubt: Fault | None = None
        self.recorded = RecordedRows()

    def skip(self, count: int, head: str) -> Fault | None:
        """Skip the archived events. Return the reason if they differ from the sealed ones."""
        hashes = [hashed for hashed, _ in islice(self.sealed, count)]
        self.seq = count
        if len(hashes) < count or hashes[-1:] not in ([head][:count], [_UNKNOWN[0]]):
            return Fault(count, "its archive ends with another event than was sealed")
        return None

    def read(self, events: Iterable[Event]) -> Iterator[Linked]:
        for event in events:
            self.seq += 1
            wanted, bound = next(self.sealed, (None, self.newest))
            if wanted is None:
                self.first_loose = min(self.first_loose or event.pk, event.pk)
                first, last = self.between or (event.at, event.at)
                self.loose, self.between = (
                    self.loose + 1,
                    (min(first, event.at), max(last, event.at)),
                )
            elif event.hash != wanted != _UNKNOWN[0] and self.unlike is None:
                self.unlike = Fault(self.seq, "it is not the event that was sealed")
            if self.fault is None and event.workspace_id != self.workspace:
                self.fault = Fault(self.seq, "it belongs to another workspace than its chain")
            self.doubt = self.doubt or self.doubt_of(self.seq, event.at, bound)
            linked = Linked(hashed_parts(event), event.previous, event.hash, texts_of(event))
            self.recorded.take(linked)
            yield linked

    @property
    def cut(self) -> Fault | None:
        """Return the fault if more events were sealed than the chain has; call it at its end."""
        if left := sum(1 for _ in self.sealed):
            why = f"the chain ends after {self.seq} events; {self.seq + left} were sealed"
            return Fault(self.seq + 1, why)
        return None

    def doubt_of(self, seq: int, at: datetime, bound: str) -> Fault | None:
        """Return why an event's time is impossible: a forged time, or that of a wrong clock."""
        why = "it is in the future" if at > self.now + _LATE else ""
        if at < _since(bound):
            why = "it is older than the head before its seal"
        if not why or _is_of_wrong_clock(at):
            return None
        return Fault(seq, f"{why}: a clock was wrong, or its time was forged")


def _is_of_wrong_clock(at: datetime) -> bool:
    """Tell whether this time may come from a clock that is known to have been wrong."""
    return any(since <= at <= until for since, until in settings.OPSCONSOLE_WRONG_CLOCKS)


def is_sure(at: str) -> bool:
    """Tell whether no clock known to have been wrong may have shown this time."""
    return not _is_of_wrong_clock(datetime.fromisoformat(at))


@lru_cache(8)
def _since(at: str) -> datetime:
    return datetime.fromisoformat(at) - _LATE if at else _LONG_AGO


# The sealed hashes by chain: an index on disk, as it grows with the record.


_BUILD = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -4096;
CREATE TABLE sealed (chain TEXT, number INT, count INT, hashes TEXT, bound TEXT, home TEXT);
CREATE TABLE counted (chain TEXT PRIMARY KEY, count INT) WITHOUT ROWID;
"""
_MISCOUNTED = """
WITH wanted AS (SELECT chain, sum(count) AS count FROM sealed GROUP BY chain)
SELECT chain, coalesce(c.count, 0) AS c, coalesce(w.count, 0) AS w
FROM (SELECT chain FROM counted UNION SELECT chain FROM wanted)
LEFT JOIN counted c USING (chain) LEFT JOIN wanted w USING (chain) WHERE {} ORDER BY chain
"""
_UNKNOWN = ("", "")  # hash and time bound of an event sealed by a head that was not read


_EARLIER = """
SELECT coalesce((SELECT count FROM counted WHERE chain = ?), 0)
     - coalesce((SELECT sum(count) FROM sealed WHERE chain = ?), 0)
"""


class SealedChains:
    """The hash of every sealed event, chain by chain; close it afterwards.

    If only the last heads are read, earlier hashes are _UNKNOWN, as many as `agents_sealed` counts.
    Takes about 70 bytes per event in a temporary directory and a few megabytes of memory.
    """

    newest = ""  # time of the newest head with a trustworthy clock

    def __init__(self, *, is_whole: bool = True) -> None:
        self._is_whole = is_whole
        self._directory = TemporaryDirectory(prefix="opsconsole-")
        # One thread of a job may end what another began; two never use it at once.
        self._rows = sqlite3.connect(
            Path(self._directory.name) / "sealed", isolation_level=None, check_same_thread=False
        )
        self._rows.executescript(_BUILD)
        self._rows.execute("BEGIN")
        self._is_indexed = False

    def close(self) -> None:
        self._rows.close()
        self._directory.cleanup()

    def add(self, head: SealedHead, bound: str) -> None:
        """Add the hashes that a head seals; heads must come in order."""
        homes = {
            chain: workspace
            for workspace, part in (head.workspaces or {}).items()
            for chain in part["moved"]
        }
        self._rows.executemany(
            "INSERT INTO sealed VALUES (?, ?, ?, ?, ?, ?)",
            (
                (chain, head.number, len(hashes), json.dumps(hashes), bound, homes.get(chain))
                for chain, hashes in head.chains()
            ),
        )

    def of(self, chain: str) -> Iterator[tuple[str, str]]:
        """Yield the sealed hashes of a chain in order, each with its time bound."""
        if not self._is_whole:
            counted = self._fetch(_EARLIER, chain, chain).fetchone()[0]
            yield from repeat(_UNKNOWN, max(0, counted))
        sealed = self._fetch(
            "SELECT hashes, bound FROM sealed WHERE chain = ? ORDER BY number", chain
        )
        for hashes, bound in sealed:
            yield from ((hashed, bound) for hashed in json.loads(hashes))

    def home(self, chain: str) -> str | None:
        """Return the id of the workspace under which a chain was first sealed, "" if unknown."""
        wanted = "SELECT home FROM sealed WHERE chain = ? AND home IS NOT NULL ORDER BY number"
        return next((home for (home,) in self._fetch(f"{wanted} LIMIT 1", chain)), None)

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each sealed chain, in order, and its number of sealed events."""
        yield from self._fetch("SELECT chain, sum(count) FROM sealed GROUP BY chain ORDER BY chain")

    def count_anew(self, counts: Iterable[tuple[str, int]]) -> None:
        """Load the sealed counts that the database gives, replacing earlier ones."""
        self._rows.execute("DELETE FROM counted")
        self._rows.executemany("INSERT INTO counted VALUES (?, ?)", counts)

    def miscounts(self) -> Iterator[tuple[str, int, int]]:
        """Yield each chain that the database counts differently: name, its count, ours."""
        yield from self._fetch(_MISCOUNTED.format("c <> w" if self._is_whole else "c < w"))

    def _fetch(self, query: str, *values: str) -> sqlite3.Cursor:
        if not self._is_indexed:  # built once at the end, which is faster
            self._rows.execute("CREATE INDEX of_chain ON sealed (chain, number, count)")
            self._is_indexed = True
        return self._rows.execute(query, values)


# Rows with values of the wrong type for their columns, written by another program.
#
# SQLite keeps any value in any column except an `INTEGER PRIMARY KEY`. A fraction as a head's
# number would make reading page by page endless.


Rows = TypeVar("Rows", bound=QuerySet[Any])

_IS_KEY: dict[type[Model], dict[str, str]] = {
    Head: {"sqlite": "(typeof({key}) = 'integer' AND {key} > 0)", "postgresql": "({key} > 0)"},
    Run: {
        "sqlite": "(typeof({key}) = 'text' AND length({key}) = 32 AND {key} NOT GLOB '*[^0-9a-f]*')"
    },
}


def with_keys(rows: Rows) -> Rows:
    """Keep the rows that can be read by key."""
    template = _IS_KEY[rows.model].get(connection.vendor)
    if template is None:
        return rows
    template = template.format(key="%(expressions)s")
    has_key = Func(F("pk"), template=template, output_field=BooleanField())
    return rows.alias(has_key=has_key).filter(has_key=True)


def list_false_keys() -> Iterator[tuple[type[Model], str]]:
    """Yield each model and value that is stored as a key and is not a valid one."""
    spell = {"sqlite": "quote({key})", "postgresql": "{key}::text"}[connection.vendor]
    with connection.cursor() as cursor:
        for model, conditions in _IS_KEY.items():
            table, key = model._meta.db_table, model._meta.pk.column
            if condition := conditions.get(connection.vendor):
                shown, is_key = spell.format(key=key), condition.format(key=key)
                cursor.execute(f"SELECT {shown} FROM {table} WHERE NOT {is_key}")  # noqa: S608
                for (false_key,) in cursor.fetchall():
                    yield model, false_key


@contextmanager
def any_text() -> Iterator[None]:
    """Let SQLite return text that is not UTF-8, so that its place can be named."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    database = connection.connection
    database.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        yield
    finally:
        database.text_factory = str
