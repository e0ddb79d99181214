"""What the supervised graph keeps beside its checkpoints: threads, escalations, effects, events.

Events of a thread are chained as ours are; the thread's row, locked, says where its chain ends.
The same SQL serves both databases: times are text as the chain spells them, so they compare.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from django.db import connections

from agents import driver
from agents.core.actions import Action
from agents.core.chain import link, spelled
from agents.core.digest import canonical
from agents.core.effects import Json
from agents.models.event import Entry

Change: TypeAlias = tuple[str, tuple[Any, ...]]

_KEYED = {"sqlite": " WITHOUT ROWID"}  # one tree a table, where a rowid would make it two
_LOCKED = {"postgresql": " FOR UPDATE"}  # SQLite locks the database when a transaction begins
TABLES = (
    "bench_threads (id TEXT PRIMARY KEY, workspace BIGINT NOT NULL, goal TEXT NOT NULL,"
    " customer BIGINT NOT NULL, launched_by BIGINT NOT NULL, state TEXT NOT NULL,"
    " event_count BIGINT NOT NULL, head_hash TEXT NOT NULL, created_at TEXT NOT NULL)",
    "bench_escalations (thread TEXT, step BIGINT, state TEXT NOT NULL, action TEXT NOT NULL,"
    " action_sha256 TEXT NOT NULL, review TEXT NOT NULL, requested_minor BIGINT,"
    " expires_at TEXT NOT NULL, granted_minor BIGINT, comment TEXT, decided_by BIGINT,"
    " decided_at TEXT, PRIMARY KEY (thread, step))",
    "bench_effects (thread TEXT, step BIGINT, tool TEXT NOT NULL, args TEXT NOT NULL,"
    " args_sha256 TEXT NOT NULL, book BIGINT NOT NULL, customer BIGINT NOT NULL, charge BIGINT,"
    " amount_minor BIGINT, by_person BOOLEAN NOT NULL, state TEXT NOT NULL, result TEXT,"
    " intended_at TEXT NOT NULL, settled_at TEXT, PRIMARY KEY (thread, step))",
    "bench_events (thread TEXT, seq BIGINT, kind TEXT NOT NULL, facts TEXT NOT NULL,"
    " actor TEXT NOT NULL, at TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (thread, seq))",
)
# For what was refunded without a person: the refunds that a person granted are not in it.
INDEX = (
    "CREATE INDEX IF NOT EXISTS bench_unattended ON bench_effects (book, customer)"
    " WHERE tool = 'issue_refund' AND NOT by_person"
)
LAUNCH = "INSERT INTO bench_threads VALUES (%s, %s, %s, %s, %s, 'running', %s, %s, %s)"
MOVE = "UPDATE bench_threads SET state = %s, event_count = %s, head_hash = %s WHERE id = %s"
SAY = "INSERT INTO bench_events VALUES "
HOLD = (
    "INSERT INTO bench_escalations (thread, step, state, action, action_sha256, review,"
    " requested_minor, expires_at) VALUES (%s, %s, 'open', %s, %s, %s, %s, %s)"
)
DECIDE = (
    "UPDATE bench_escalations SET state = 'decided', granted_minor = %s, comment = %s,"
    " decided_by = %s, decided_at = %s"
    " WHERE thread = %s AND step = %s AND state = 'open' AND expires_at > %s"
)
INTEND = (
    "INSERT INTO bench_effects (thread, step, tool, args, args_sha256, book, customer, charge,"
    " amount_minor, by_person, state, intended_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'intended', %s)"
)
SETTLE = (
    "UPDATE bench_effects SET state = %s, result = %s, settled_at = %s"
    " WHERE thread = %s AND step = %s AND state = 'intended'"
)
_THREAD = (
    "SELECT workspace, customer, launched_by, state, event_count, head_hash FROM bench_threads"
    " WHERE id = %s"
)
_ESCALATIONS = (
    "SELECT step, state, action, action_sha256, review, requested_minor, expires_at, granted_minor"
    " FROM bench_escalations WHERE thread = %s ORDER BY step"
)
_EFFECTS = (
    "SELECT step, tool, args, customer, amount_minor, by_person, state, result"
    " FROM bench_effects WHERE thread = %s ORDER BY step"
)
_UNATTENDED = (
    "SELECT charge, amount_minor FROM bench_effects WHERE book = %s AND customer = %s"
    " AND tool = 'issue_refund' AND NOT by_person AND state <> 'refused' AND intended_at >= %s"
)
_OF_WORKSPACE = "SELECT id FROM bench_threads WHERE workspace = %s"
_EVENTS = "SELECT kind, facts, actor, at, hash FROM bench_events WHERE thread = %s ORDER BY seq"


@dataclass
class Thread:
    """A run as LangGraph calls it, and where its chain of events ends."""

    id: str
    workspace: int
    customer: int
    launched_by: int
    state: str = "running"  # or done, stopped
    count: int = 0
    head: str = ""

    def chained(self, entries: Sequence[Entry], at: datetime) -> Change:
        """Return how events are inserted at the end of the chain, and move its end."""
        rows: list[Any] = []
        for entry in entries:
            self.count += 1
            self.head = link(self.head, self._covered(entry, at))
            said = (entry.kind, canonical(entry.facts), entry.actor, spelled(at))
            rows += (self.id, self.count, *said, self.head)
        return SAY + ", ".join(["(%s, %s, %s, %s, %s, %s, %s)"] * len(entries)), tuple(rows)

    def _covered(self, entry: Entry, at: datetime) -> dict[str, Json]:
        return {
            "workspace": self.workspace,
            "run": self.id,
            "seq": self.count,
            "kind": entry.kind,
            "facts": entry.facts,
            "actor": entry.actor,
            "at": at,
        }

    def put(self, entries: Sequence[Entry], *changes: Change, at: datetime) -> list[int]:
        """Write changes with the events that tell of them; return how many rows each changed.

        For a caller who holds the thread's row.
        """
        events = self.chained(entries, at)
        moved = MOVE, (self.state, self.count, self.head, self.id)
        with driver.together():
            done = [_send(*change) for change in (*changes, events, moved)]
        return [driver.answered(cursor).rowcount for cursor in done[: len(changes)]]


@dataclass(frozen=True)
class Escalation:
    """An action that waits for a person, or waited."""

    step: int
    state: str
    action_json: str
    action_sha256: str
    review_json: str
    requested_minor: int | None
    expires_at: str
    granted_minor: int | None

    @property
    def review(self) -> Json:
        return json.loads(self.review_json)

    def granting(self, amount_minor: int | None) -> Action:
        """Return the action with what a person allows of it."""
        action: Action = json.loads(self.action_json)
        return {**action, "args": {**action["args"], "amount_minor": amount_minor}}


@dataclass(frozen=True)
class Effect:
    """A write that was intended, and what became of it."""

    step: int
    tool: str
    args: Json
    customer: int
    amount_minor: int
    by_person: bool
    state: str
    result: Json

    @property
    def reference(self) -> str:
        """Return what the desk calls a refund that it has paid; a letter about it quotes that."""
        refund = (self.result or {}).get("refund") or {}
        return str(refund.get("transaction_id", "")) if self.state == "done" else ""


def create_tables() -> None:
    vendor = connections["default"].vendor
    for table in TABLES:
        _send(f"CREATE TABLE IF NOT EXISTS {table}{_KEYED.get(vendor, '')}", ())
    _send(INDEX, ())


def locked(
    thread: str, changes: Sequence[Change]
) -> Callable[[], tuple[Thread, list[Escalation], list[Effect]]]:
    """Lock a thread, change it, ask for what is kept of it; call what comes back for that."""
    row = _send(_THREAD + _LOCKED.get(connections["default"].vendor, ""), (thread,))
    for change in changes:
        _send(*change)
    held, done = _send(_ESCALATIONS, (thread,)), effects(thread)
    return lambda: (
        Thread(thread, *driver.answered(row).fetchall()[0]),
        [Escalation(*found) for found in driver.answered(held).fetchall()],
        done(),
    )


def effects(thread: str) -> Callable[[], list[Effect]]:
    """Ask for the writes of a thread, oldest first."""
    done = _send(_EFFECTS, (thread,))
    return lambda: [_effect(*found) for found in driver.answered(done).fetchall()]


def unattended(book: int, customer: int, since: datetime) -> Callable[[], list[tuple[int, int]]]:
    """Ask what a customer was refunded without a person: by charge, in minor units."""
    done = _send(_UNATTENDED, (book, customer, spelled(since)))
    return lambda: driver.answered(done).fetchall()


def launched(thread: Thread, goal: str, entries: Sequence[Entry], at: datetime) -> None:
    """Insert a thread with the beginning of its chain."""
    events = thread.chained(entries, at)
    begun = (thread.id, thread.workspace, goal, thread.customer, thread.launched_by)
    _send(LAUNCH, (*begun, thread.count, thread.head, spelled(at)))
    _send(*events)


def _effect(step: int, tool: str, args: str, *kept: Any) -> Effect:
    *known, result = kept
    return Effect(step, tool, json.loads(args), *known, json.loads(result) if result else None)


def _send(sql: str, params: tuple[Any, ...]) -> Any:
    return driver.send(connections["default"], sql, params)


def check(workspace: int, runs: int) -> None:
    """Prove of every thread its end, its effects, its decision and its chain, or stop."""
    ids = [pk for (pk,) in _send(_OF_WORKSPACE, (workspace,)).fetchall()]
    if len(ids) != runs:
        raise SystemExit(f"{runs} runs left {len(ids)} threads")
    for pk in ids:
        thread, escalations, effects = locked(pk, ())()
        kept = [held.state for held in escalations], [effect.state for effect in effects]
        if thread.state != "done" or kept != (["decided"], ["done", "done"]):
            raise SystemExit(f"thread {pk} is {thread.state} with {kept}")
        if not _is_chained(thread):
            raise SystemExit(f"the events of thread {pk} are not chained")


def _is_chained(thread: Thread) -> bool:
    """Tell whether the chain of a thread links and ends where its row says."""
    again = Thread(thread.id, thread.workspace, thread.customer, thread.launched_by)
    for kind, facts, actor, at, kept in _send(_EVENTS, (thread.id,)).fetchall():
        again.chained([Entry(kind, json.loads(facts), actor)], datetime.fromisoformat(at))
        if again.head != kept:
            return False
    return (again.count, again.head) == (thread.count, thread.head)
