"""The writes of a run in one transaction: collected in memory, sent together.

A `Draft` collects writes without touching the database. A `Commit` is open while its transaction
holds the run's row; when it closes, steps, rows, events and the run's change are sent together.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from django.db.models import Model

from agents.core.requests import Json, RunState
from agents.db.compiled import CompiledSelect, Param, send_columns, send_rows, update_row
from agents.db.driver import Pending, pipeline
from agents.engine.tracing import tell_recorded
from agents.models import Run, Step
from agents.models.record import Entry, chain_events
from agents.models.runs import columns_of_move, keep_values, send_change, taken_by

# The columns of a step that change after it was begun.
PROGRESS = (
    *("reply", "failed", "attempts", "seconds", "tokens_in", "tokens_out", "tokens_lost"),
    *("cost_micro_usd", "model", "ended_at"),
)

UnderLock: TypeAlias = Callable[["Commit"], object]  # a write under the transaction's locks


class NewRow(NamedTuple):
    """A row to insert, by column; columns in `keys` are found by query: see `send_columns`."""

    model: type[Model]
    columns: Mapping[str, Json]
    keys: Mapping[str, CompiledSelect[Any]]


# Finds a step by its key, for a row that is sent together with it.
STEP_BY_KEY = CompiledSelect(
    lambda: Step.objects.filter(run=Param("run"), key=Param("key")).only("pk")
)


@dataclass
class Draft:
    """Writes waiting for a commit. Steps are named by key, as they may have no numbers yet."""

    begun: dict[str, Step] = field(default_factory=dict)
    changed: dict[str, Step] = field(default_factory=dict)
    ended: list[Step] = field(default_factory=list)
    rows: list[NewRow] = field(default_factory=list)
    # For the record, in order; a step stands for its begin.
    lines: list[Entry | Step | UnderLock] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lines or self.changed)

    def begin(self, step: Step) -> None:
        """Insert a step, and record its beginning unless it ends in the same draft."""
        self.begun[step.key] = step
        self.lines.append(step)

    def change(self, step: Step) -> None:
        """Update a step with this commit, unless it is still to be inserted."""
        if step.key not in self.begun:
            self.changed[step.key] = step

    def end(self, step: Step) -> None:
        self.ended.append(step)
        self.change(step)


class Commit:
    """A transaction's writes of a run, whose row it has read and still holds locked.

    A context manager: if the block succeeds, everything is sent, and a run that is still RUNNING
    is leased for `lease` from now. Raises LostRun.
    """

    def __init__(self, run: Run, *, at: datetime, lease: timedelta | None = None) -> None:
        self.run, self.at = run, at
        self.new_keys: set[str] = set()  # of steps begun in this commit
        self._lease = lease
        self._was = (run.state, run.fence)
        self._entries: list[Entry] = []
        self._columns: dict[str, object] = {}  # of the run, to change
        self._steps: dict[str, Step] = {}  # to insert
        self._updates: dict[str, tuple[Step, tuple[str, ...]]] = {}
        self._rows: list[NewRow] = []

    def __enter__(self) -> "Commit":
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._flush()

    def take(self, draft: Draft) -> None:
        """Take over a draft; run its locked writes at their place among the events."""
        self._steps |= draft.begun
        self.new_keys |= draft.begun.keys()
        self._rows += draft.rows
        for step in draft.ended:
            step.ended_at = step.ended_at or self.at
        for step in draft.changed.values():
            self.update(step, *PROGRESS)
        for line in draft.lines:
            if isinstance(line, Entry):
                self._entries.append(line)
            elif not isinstance(line, Step):
                line(self)
            elif line.ended_at is None:
                self.say("step.begun", {"key": line.key})

    def say(self, kind: str, facts: Json, actor: str = "") -> None:
        """Add an event to the run's chain."""
        self._entries.append(Entry(kind, facts, actor))

    def tell(self, entries: Iterable[Entry]) -> None:
        """Add events to the run's chain."""
        self._entries += entries

    def update(self, step: Step, *names: str) -> None:
        """Update these columns of a step, unless it is still to be inserted."""
        if step.key not in self._steps:
            self._updates[step.key] = step, names

    def send_steps(self) -> Pending[None]:
        """Insert the steps now, in an open pipeline if any, because another row refers to one."""
        steps, self._steps = self._steps, {}
        return send_rows(*steps.values()) if steps else Pending(lambda: None)

    def change(self, **columns: object) -> None:
        """Change columns of the run."""
        self._columns |= columns
        for name, value in columns.items():
            setattr(self.run, name, value)

    def move(self, to: RunState, *, facts: Json = None, actor: str = "", **columns: object) -> None:
        """Move the run to `to` and record that. Raises LostRun if the move is not allowed."""
        self.change(**columns_of_move(self.run, to, at=self.at, **columns))
        self.say(f"run.{to}", facts or {}, actor)

    def _flush(self) -> None:
        run, is_new = self.run, self.run._state.adding
        taken = taken_by(run)
        if taken and not run.has_values:
            self.change(has_values=True)
        lines = chain_events(
            self._entries,
            workspace_id=run.workspace_id,
            run_id=run.pk,
            after=(run.event_count, run.head_hash),
            at=self.at,
        )
        tell_recorded(run, self._entries, self.at)
        if self._entries:
            count, head = lines.end
            self.change(event_count=count, head_hash=head)
        if self._lease and run.state == RunState.RUNNING:
            self._columns["lease"] = self._lease
            self._columns.pop("lease_ends_at", None)  # of a move in this commit
        answers = []
        with pipeline():
            lines.send()
            for step, names in self._updates.values():
                update_row(step, *names)
            if self._steps:
                answers.append(send_rows(*self._steps.values()))
            for row in self._rows:  # after the steps, which they refer to
                send_columns(row.model, [row.columns], keys=row.keys)
            if is_new:
                answers.append(send_rows(run))
            elif self._columns:
                answers.append(send_change(run.pk, *self._was, self._columns))
            if taken:  # after the run, which they refer to
                keep_values(run, taken)
        for answer in answers:
            answer.get()
