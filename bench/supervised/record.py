"""What the supervised graph keeps beside its checkpoints: threads, escalations, effects, events.

Events of a thread are chained as ours are; the thread's row, locked, says where its chain ends.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from django.db import connections

from agents.core.json_forms import Action, canonical
from agents.core.requests import Json
from agents.db import driver
from agents.models.record import Entry
from agents.record.seals import link, spell_time
from bench.supervised import tables

Change: TypeAlias = tuple[str, tuple[Any, ...]]

_LOCKED = {"postgresql": " FOR UPDATE"}  # SQLite locks the database when a transaction begins


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

    def chain_entries(self, entries: Sequence[Entry], at: datetime) -> Change:
        """Return how events are inserted at the end of the chain, and move its end."""
        rows: list[Any] = []
        for entry in entries:
            self.count += 1
            self.head = link(self.head, self._hashed_part(entry, at))
            said = (entry.kind, canonical(entry.facts), entry.actor, spell_time(at))
            rows += (self.id, self.count, *said, self.head)
        return tables.SAY + ", ".join(["(%s, %s, %s, %s, %s, %s, %s)"] * len(entries)), tuple(rows)

    def _hashed_part(self, entry: Entry, at: datetime) -> dict[str, Json]:
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
        events = self.chain_entries(entries, at)
        moved = tables.MOVE, (self.state, self.count, self.head, self.id)
        with driver.pipeline():
            done = [_send(*change) for change in (*changes, events, moved)]
        return [driver.require_answer(cursor).rowcount for cursor in done[: len(changes)]]


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
    for table in tables.TABLES:
        _send(f"CREATE TABLE IF NOT EXISTS {table}", ())
    _send(tables.INDEX, ())


def lock_thread(
    thread: str, changes: Sequence[Change]
) -> Callable[[], tuple[Thread, list[Escalation], list[Effect]]]:
    """Lock a thread, change it, ask for what is kept of it; call what comes back for that."""
    row = _send(tables.THREAD + _LOCKED.get(connections["default"].vendor, ""), (thread,))
    for change in changes:
        _send(*change)
    held, done = _send(tables.ESCALATIONS, (thread,)), effects(thread)
    return lambda: (
        Thread(thread, *driver.require_answer(row).fetchall()[0]),
        [Escalation(*found) for found in driver.require_answer(held).fetchall()],
        done(),
    )


def effects(thread: str) -> Callable[[], list[Effect]]:
    """Ask for the writes of a thread, oldest first."""
    done = _send(tables.EFFECTS, (thread,))
    return lambda: [_effect(found) for found in driver.require_answer(done).fetchall()]


def ask_refunds(book: int, customer: int, since: datetime) -> Callable[[], list[tuple[int, int]]]:
    """Ask what a customer was refunded without a person: by charge, in minor units."""
    done = _send(tables.UNATTENDED, (book, customer, spell_time(since)))
    return lambda: driver.require_answer(done).fetchall()


def insert_thread(thread: Thread, goal: str, entries: Sequence[Entry], at: datetime) -> None:
    """Insert a thread with the beginning of its chain."""
    events = thread.chain_entries(entries, at)
    begun = (thread.id, thread.workspace, goal, thread.customer, thread.launched_by)
    _send(tables.LAUNCH, (*begun, thread.count, thread.head, spell_time(at)))
    _send(*events)


def _effect(row: tuple[Any, ...]) -> Effect:
    step, tool, args, customer, minor, by_person, state, result = row
    seen = json.loads(result) if result else None
    return Effect(step, tool, json.loads(args), customer, minor, bool(by_person), state, seen)


def _send(sql: str, params: tuple[Any, ...]) -> Any:
    return driver.send(connections["default"], sql, params)


def check(workspace: int, runs: int) -> None:
    """Prove of every thread its end, its effects, its decision and its chain, or stop."""
    ids = [pk for (pk,) in _send(tables.OF_WORKSPACE, (workspace,)).fetchall()]
    if len(ids) != runs:
        raise SystemExit(f"{runs} runs left {len(ids)} threads")
    for pk in ids:
        thread, escalations, effects = lock_thread(pk, ())()
        kept = [held.state for held in escalations], [effect.state for effect in effects]
        if thread.state != "done" or kept != (["decided"], ["done", "done"]):
            raise SystemExit(f"thread {pk} is {thread.state} with {kept}")
        if not _is_chained(thread):
            raise SystemExit(f"the events of thread {pk} are not chained")


def _is_chained(thread: Thread) -> bool:
    """Tell whether the chain of a thread links and ends where its row says."""
    again = Thread(thread.id, thread.workspace, thread.customer, thread.launched_by)
    for kind, facts, actor, at, kept in _send(tables.EVENTS, (thread.id,)).fetchall():
        again.chain_entries([Entry(kind, json.loads(facts), actor)], datetime.fromisoformat(at))
        if again.head != kept:
            return False
    return (again.count, again.head) == (thread.count, thread.head)
