"""The writes of a run in one transaction, and the end of a run.

A `Draft` collects writes without touching the database. A `Commit` is open while its transaction
holds the run's row; when it closes, steps, rows, events and the run's change are sent together.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from django.db.models import Exists, Model, OuterRef, QuerySet

from agents.core.decisions import INQUIRY, KINDS
from agents.core.requests import ENDED, GRANTED, EffectState, EscalationState, Json, RunState
from agents.db.compiled import CompiledSelect, Param, send_columns, send_rows, update_row
from agents.db.driver import Pending, pipeline
from agents.engine.runtime.dispatch import ring
from agents.engine.tracing import tell_recorded
from agents.models import AgentCall, Effect, Escalation, Run, Step
from agents.models.record import Entry, chain_events
from agents.models.runs import columns_of_move, keep_values, send_change, taken_by
from agents.patterns.routing import NO_SPECIALIST
from agents.sdk.desk import tools_at

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


# End a run, close its approvals, and wake what waits for its end.


def end_run(
    commit: Commit,
    to: RunState,
    *,
    stop_reason: str,
    facts: Json,
    actor: str = "",
    asked_people: bool = True,
    **columns: object,
) -> None:
    """End a run, and close approvals that were not executed. Raises LostRun.

    Without `asked_people` there can be none. Call with the run locked.
    """
    if asked_people:
        commit.tell(close_approvals(commit.run, why=stop_reason))
    commit.move(to, facts=facts, actor=actor, stop_reason=stop_reason, **columns)
    if commit.run.agent_id is not None:
        _wake_last_run(commit)


def is_open_earlier(run: Run, *, but: Run | None = None) -> bool:
    """Tell whether an earlier run of an external agent's session is open, except `but`.

    Call with the run locked. A transaction that ends a run locks the newest after it, so it is seen
    here or wakes the newest.
    """
    earlier = [pk for pk in run.earlier_runs() if but is None or pk != but.pk]
    return bool(earlier) and Run.objects.filter(pk__in=earlier).exclude(state__in=ENDED).exists()


def _wake_last_run(commit: Commit) -> None:
    """Queue the run of the session whose end waits for the earlier ones."""
    run = commit.run
    session = Run.objects.filter(agent=run.agent_id, reference=run.reference)
    ending = session.filter(calls__key=LAST_WORDS, calls__step="").exclude(pk=run.pk)
    # A driven run may be about to wait.
    for last in ending.exclude(state__in=ENDED).select_for_update(of=("self",)):
        if last.state == RunState.WAITING and not is_open_earlier(last, but=run):
            with Commit(last, at=commit.at) as later:
                later.move(RunState.QUEUED, attempts=0)
                ring(last.pk)


# Approvals that were not executed. An approval ends in its effect or with a reason: on its row, for
# pages, and as an event of its run. Code that does one of these calls `close_approvals`: ends a
# run, asks a person again about the same action, admits another amount, records a tool's refusal,
# or tells an external agent that its call was not executed.


# Kinds whose approval the run executes; for an unknown effect the answer itself is the end.
CARRIED_OUT = tuple(dict.fromkeys(kind.stored for kind in KINDS.values() if not kind.settles_call))
OWN_ENDS = ("success", NO_SPECIALIST)  # ends of a run that did what was allowed
ASKED_AGAIN, AMOUNT_CHANGED, REFUSED = "asked_again", "amount_changed", "refused"


def turn_of(key: str) -> str:
    """Return the common prefix of a proposal's steps: ``2/`` for ``2/person#2``."""
    return f"{key.rpartition('/')[0]}/"


def close_approvals(run: Run, *, why: str, turn: str = "", but: int | None = None) -> list[Entry]:
    """Close the approvals of a run, or of one turn, that were not executed. Return their events.

    Call with the run's row locked. `why` is a code such as a stop reason, whose quotation is cut
    off. `but` is an approval that is being executed.
    """
    code = ":".join(why.split(":")[:2])[:120]
    entries = []
    for escalation in _APPROVALS.all(run=run.pk):
        if escalation.pk == but or (turn and not escalation.step.key.startswith(turn)):
            continue
        is_call = escalation.action["kind"] == "tool"
        if is_call and _is_read(escalation):
            continue
        # An approval of anything but a call can fail only with its run.
        if not is_call and (turn or why == REFUSED or _is_heeded(escalation, why)):
            continue
        Escalation.objects.filter(pk=escalation.pk).update(not_carried_out=code)
        facts = {"escalation": escalation.pk, "key": escalation.step.key, "reason": code}
        entries.append(Entry("escalation.not_carried_out", facts))
    return entries


# Read at the end of a run that asked people, and at every intent. A call that took effect, or may
# have, was executed.
_APPROVALS = CompiledSelect(
    lambda: (
        Escalation.objects.filter(
            run=Param("run"), kind__in=CARRIED_OUT, state__in=GRANTED, not_carried_out=""
        )
        .exclude(
            Exists(
                Effect.objects.filter(escalation=OuterRef("pk")).exclude(state=EffectState.REFUSED)
            )
        )
        .order_by("pk")
        .only("action", "kind", "run", "state", "step")
    )
)


def _is_heeded(escalation: Escalation, why: str) -> bool:
    """Tell whether an ending run followed a decision that allows no call.

    An approval counts as followed if the run ended by itself, a correction once the agent was asked
    again.
    """
    if why in OWN_ENDS or escalation.kind == INQUIRY.stored:
        return True
    if escalation.state == EscalationState.ADJUSTED:
        own = Step.objects.filter(run=escalation.run_id, kind="ask")
        turn = turn_of(escalation.step.key)
        later = own.filter(key__startswith=turn, position__gt=escalation.step.position)
        return later.exists()
    return False


def _is_read(escalation: Escalation) -> bool:
    """Tell whether the allowed call was made by a tool that reads, which leaves no effect."""
    tool = tools_at(escalation.run.desk).get(escalation.action["name"])
    if tool is None or tool.writes:
        return False
    steps = Step.objects.filter(run=escalation.run_id, key__startswith=turn_of(escalation.step.key))
    by_key = {step.key: step for step in steps}
    return any(
        step.kind == "use"
        and not step.failed
        and by_key[step.asked["allowed_by"]].asked["granted"] == escalation.step.key
        for step in by_key.values()
    )


# Calls that an external agent withdrew: none of them begins.


WITHDRAWN = "withdrawn"  # the reason for not executing such a call
UNTAKEN = "untaken"  # the same, if its session's end withdrew it
LAST_WORDS = "end"  # the key of the call that ends a session


def why_withdrawn(run: Run, turn: str, *, by_agent: bool) -> str:
    """Return why a turn's withdrawn call is not executed.

    The end of a session withdraws what its agent would execute (`by_agent`).
    """
    mine = AgentCall.objects.filter(run=run, step=f"{turn}call")
    ended_at = _end_of(run).values("proposed_at")
    is_by_end = by_agent and mine.filter(withdrawn_at__gte=ended_at).exists()
    return UNTAKEN if is_by_end else WITHDRAWN


def has_ended(run: Run) -> bool:
    """Tell whether an agent has said its last words, in any run of the session."""
    return _end_of(run).exists()


def _end_of(run: Run) -> QuerySet[AgentCall]:
    session = AgentCall.objects.filter(agent=run.agent_id, reference=run.reference or "")
    return session.filter(key=LAST_WORDS)


def is_withdrawn(run: Run, turn: str) -> bool:
    """Tell whether an agent has withdrawn the call of a turn. Call with the run locked."""
    return fetch_withdrawn(run, turn).get()


def fetch_withdrawn(run: Run, turn: str) -> Pending[bool]:
    """Fetch the answer of `is_withdrawn`, in an open pipeline if any."""
    if run.agent_id is None:
        return Pending(lambda: False)
    pending = _WITHDRAWN.fetch_tuples(run=run.pk, step=f"{turn}call")
    return Pending(lambda: bool(pending.get()))


_WITHDRAWN = CompiledSelect(
    lambda: AgentCall.objects.filter(
        run=Param("run"), step=Param("step"), withdrawn_at__isnull=False
    ).only("pk")
)
