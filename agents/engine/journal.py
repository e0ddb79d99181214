"""What a run has written down, and how it writes more.

A write waits in memory until the run is about to do something that counts outside, then all
that wait go into one transaction that also proves the run is still ours. What is lost with a
crash in between changed nothing outside, so it may be done again. A call that changes nothing
and costs nothing needs no commit before it; one that takes long is written down meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import RLock
from typing import TypeAlias, TypeVar

from django.db import transaction
from django.utils import timezone

from agents.core.budget import REVIEW_CHANGED, Call, Spent, active
from agents.core.digest import as_stored, asks_the_same, digest_request, fingerprint
from agents.core.replay import Diverged, Reply
from agents.core.requests import Json, Request, Say
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.db.inserts import new_row, send_rows, update_row
from agents.engine import lease
from agents.engine.crashpoints import crashpoint
from agents.engine.database import in_database
from agents.models import Escalation, Run, Step
from agents.models.event import Entry

T = TypeVar("T")
Write: TypeAlias = Callable[[datetime], list[Entry]]  # in a transaction; returns what to say

MOST_ATTEMPTS = 32_767  # that its column counts; an outage may last for weeks
SOON = 0.05  # seconds of a call after which what waits is committed beside it: people watch

# What becomes of a step after it was begun.
_ENDS = (
    *("reply", "failed", "attempts", "seconds", "tokens_in", "tokens_out", "tokens_lost"),
    *("cost_micro_usd", "model", "ended_at"),
)
_STEPS = CompiledSelect(lambda: Step.objects.filter(run=Param("run")).order_by("position"))


@dataclass
class _Batch:
    """What waits for one transaction: steps to insert, and what is to be done and said."""

    begun: list[Step] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    finished: set[str] = field(default_factory=set)  # keys of steps whose end is among them
    needs_keys: bool = False  # of the steps: then they are inserted first, else with the rest


@dataclass
class Timer:
    """A measure that is being taken."""

    counts: bool = True  # as time of the run


class Waiting(Exception):
    """The step waits for a person."""


class Later(Exception):
    """The run can go on, but not before `at`; until then it holds no worker.

    `why` goes on record. `is_fruitless` says that the run itself may be why it comes no further:
    claims that end so add up, and after MAX_CLAIMS in a row there is no other.
    """

    def __init__(self, at: datetime, why: str = "", *, is_fruitless: bool = False) -> None:
        super().__init__(str(at))
        self.at, self.why, self.is_fruitless = at, why, is_fruitless


class Journal:
    """The steps of one run that this worker has claimed."""

    def __init__(self, run: Run) -> None:
        self.run = run
        # Nobody had a run before its first claim.
        self.steps = {step.key: step for step in (_STEPS.all(run=run.pk) if run.fence > 1 else ())}
        for step in self.steps.values():
            step.run = run
        self.done: dict[int, Json] = {}  # results of writes in the world, by their step's key
        self.escalated: set[int] = set()
        under_way = [step.pk for step in self.steps.values() if not step.ended_at]
        if under_way:
            # By the step, not by whether it has ended: somebody may have decided since.
            asked = Escalation.objects.filter(step__in=under_way)
            self.escalated.update(asked.values_list("step_id", flat=True))
        self.fresh: set[str] = set()  # keys of steps that this transaction inserts
        self._batch = _Batch()
        self._unsent: dict[str, Step] = {}  # those of them that have not been sent yet
        self._changed: dict[str, Step] = {}  # what this transaction has to update, by key
        self._truths: list[Write] = []
        self._lock = asyncio.Lock()
        self._lost: BaseException | None = None  # why a commit failed, and with it what it had
        # Flows side by side write from the event loop and from the database's threads.
        self._guard = RLock()
        # Active time: what was recorded, and what this drive has measured and is measuring.
        self._past = active(step.span for step in self.steps.values())
        self._spans: list[tuple[float, float]] = []
        self._since: dict[str, float] = {}  # calls that are under way, by their step's key
        self._assumed = 0.0

    def recall(self, key: str, request: Request) -> Reply | None:
        """Return the recorded reply, or None if the step has to be done.

        Raises Waiting where it is with a person, Diverged where something else was recorded.
        """
        step = self.steps.get(key)
        if step is None:
            return None
        if step.fingerprint != fingerprint(request) and not asks_the_same(step.asked, request):
            # Not what was asked: an error's message goes into the log.
            raise Diverged(f"{key}: another {step.kind} is asked than was recorded")
        if step.pk in self.escalated:
            raise Waiting(key)
        return Reply(step.reply, step.failed) if step.ended_at else None

    def begin(self, key: str, request: Request) -> Step:
        """Open a step, or open it once more after a crash. The write waits for a flush."""
        known = self.steps.get(key)
        if known:
            self.retried(known, "its last try did not end")
            return known
        digest, asked = digest_request(request)
        with self._guard:
            step = self.steps[key] = new_row(
                Step,
                run_id=self.run.pk,
                # Not their number: a step that a failed commit lost may have left a gap.
                position=1 + max((step.position for step in self.steps.values()), default=0),
                key=key,
                kind=type(request).__name__.lower(),
                fingerprint=digest,
                asked=asked,
                begun_at=timezone.now(),
            )
            step.run = self.run
            if isinstance(request, Say):
                step.ended_at = step.begun_at
            self._batch.begun.append(step)
            self._batch.writes.append(lambda at: self._begun(step))
        return step

    @contextmanager
    def timed(self, step: Step) -> Iterator[Timer]:
        """Count the time that the block takes as active time of a step, unless it says not to."""
        started, timer = time.monotonic(), Timer()
        self._since[step.key] = started
        try:
            yield timer
        finally:
            del self._since[step.key]
            if timer.counts:
                ended = time.monotonic()
                step.seconds += ended - started
                self._spans.append((started, ended))

    def assume(self, step: Step, seconds: float) -> None:
        """Count time as used by a step though nobody waited for it."""
        step.seconds += seconds
        self._assumed += seconds

    def reserve(self, step: Step, tokens: int) -> None:
        """Count tokens as used by a step, in case that its answer never comes."""
        step.tokens_lost += tokens
        self.note(step)

    def note(self, step: Step) -> None:
        """Have what a step has used so far written down, though it does not end."""
        self.write(lambda at: self._noted(step))

    def retried(self, step: Step, why: str) -> None:
        """Write down that a call came to nothing and is made once more."""
        step.attempts = min(step.attempts + 1, MOST_ATTEMPTS)
        self.write(lambda at: [self._again(step, why)])

    def finish(self, step: Step, reply: Reply, **facts: Json) -> Reply:
        """Close a step with its reply. Return the reply as a replay will see it."""
        step.reply, step.failed = as_stored(reply.value), reply.failed
        with self._guard:
            self._batch.finished.add(step.key)
            self.write(lambda at: [self._close(step, facts, at)])
        return Reply(step.reply, step.failed)

    def say(self, key: str, request: Say) -> Reply:
        """Put a line on the record; it is a step, so that a replay does not say it again."""
        self.begin(key, request)
        return Reply()

    def write(self, write: Write, *, needs_keys: bool = False) -> None:
        """Have something done in the next transaction; `needs_keys` of the steps begun so far."""
        with self._guard:
            self._batch.writes.append(write)
            self._batch.needs_keys |= needs_keys

    def write_truth(self, write: Write) -> None:
        """Add what has happened in the world: it is recorded even where the run was lost."""
        with self._guard:  # a commit that ends now takes its own out of the list
            self.write(write)
            self._truths.append(write)

    def _taken(self) -> _Batch:
        """Return what waits; from now on it does not."""
        with self._guard:
            batch, self._batch = self._batch, _Batch()
            return batch

    def record_truths(self) -> None:
        """Commit what has happened in the world though the run is no longer ours."""
        truths = list(self._truths)
        if truths:
            with transaction.atomic():
                Run.objects.select_for_update().get(pk=self.run.pk)
                at = timezone.now()
                self.run.tell([entry for write in truths for entry in write(at)], at=at)
            self._told(truths)

    async def flush(self) -> None:
        """Commit what waits, and wait for a commit that has taken it. Raises LostRun."""
        await self._transacted(None)

    @asynccontextmanager
    async def soon(self) -> AsyncIterator[None]:
        """Commit what waits while the block goes on, if it takes long. Raises LostRun."""
        flushes: list[asyncio.Future[None]] = []

        def begin() -> None:
            flushes.append(asyncio.ensure_future(self.flush()))

        timer = asyncio.get_running_loop().call_later(SOON, begin)
        try:
            yield
        finally:
            timer.cancel()
            for flush in flushes:
                await flush

    async def transact(self, work: Callable[[datetime], T]) -> T:
        """Commit what waits and `work` in one transaction, and return what `work` returns."""
        results: list[T] = []
        await self._transacted(lambda at: results.append(work(at)))
        return results[0]

    async def _transacted(self, work: Callable[[datetime], None] | None) -> None:
        async with self._lock:
            if self._lost:  # what came after it must not be written without it
                raise self._lost
            if not (work or self._batch.writes):
                return
            # Not tried again: `work` may change the journal, so a database error ends the drive.
            commit = asyncio.ensure_future(in_database(self._commit, self._taken(), work, tries=1))
            try:
                await asyncio.shield(commit)
            except asyncio.CancelledError:
                # Its thread goes on. Nobody else may touch the run meanwhile.
                await asyncio.gather(commit, return_exceptions=True)
                raise
            except BaseException as error:
                self._lost = error
                raise

    def _commit(self, batch: _Batch, work: Callable[[datetime], None] | None) -> None:
        crashpoint("journal.before_commit")
        at = timezone.now()
        with transaction.atomic():
            self.run.hold()
            with self.run.recording(at=at, lease=lease.length()):
                self.run.send(self._send_steps)  # before whatever refers to them
                self.fresh, self._unsent, self._changed = set(), {}, {}
                self._apply(batch, at)
                done = batch.writes
                if work:
                    work(at)
                    late = self._taken()  # what `work` itself wrote down
                    self._apply(late, at)
                    done = [*done, *late.writes]
        self._told(done)
        crashpoint("journal.after_commit")

    def _told(self, done: list[Write]) -> None:
        """Keep only the truths that are not among what was committed."""
        with self._guard:
            self._truths = [truth for truth in self._truths if truth not in done]

    def _apply(self, batch: _Batch, at: datetime) -> None:
        """Do and say what waited. Its steps are inserted with the record, or now for their keys."""
        begun = {step.key: step for step in batch.begun}
        self.fresh |= begun.keys()
        self._unsent |= begun
        for key in batch.finished & self._unsent.keys():  # in the same transaction: one write
            self._unsent[key].ended_at = at
        written = self._unsent if batch.needs_keys else {}
        if written:
            send_rows(*written.values()).get()
            self._unsent = {}
        self.run.tell([entry for write in batch.writes for entry in write(at)], at=at)
        for key in written:  # inserted as they are after these writes: nothing is left to update
            self._changed.pop(key, None)

    def _send_steps(self) -> Pending[None] | None:
        """Send the steps that are still to be written, where `recording` ends."""
        for step in self._changed.values():
            update_row(step, *_ENDS)
        return send_rows(*self._unsent.values()) if self._unsent else None

    @staticmethod
    def _begun(step: Step) -> list[Entry]:
        if step.kind == "say":
            return [Entry(step.asked["kind"], {"key": step.key, **step.asked["facts"]})]
        if step.ended_at:  # in the same transaction, which says so with the same time
            return []
        return [Entry("step.begun", {"key": step.key})]

    def _noted(self, step: Step) -> list[Entry]:
        self._change(step)
        return []

    def _again(self, step: Step, why: str) -> Entry:
        self._change(step)
        return Entry("step.retried", {"key": step.key, "attempt": step.attempts, "why": why})

    def _close(self, step: Step, facts: Json, at: datetime) -> Entry:
        if step.ended_at is None:
            step.ended_at = at
            self._change(step)
        ended = {"key": step.key, **facts, **({"failed": step.failed} if step.failed else {})}
        return Entry("step.failed" if step.failed else "step.done", ended)

    def _change(self, step: Step) -> None:
        """Have a step updated, unless it is still to be inserted, as it then is."""
        if step.key not in self._unsent:
            self._changed[step.key] = step

    def spent(self) -> Spent:
        """Return what the run has used, calls that are under way included."""
        steps, now = list(self.steps.values()), time.monotonic()
        under_way = [(since, now) for since in list(self._since.values())]
        return Spent(
            seconds=self._past + active([*self._spans, *under_way]) + self._assumed,
            tokens=sum(s.tokens_in + s.tokens_out + s.tokens_lost for s in steps),
            cost_micro_usd=sum(step.cost_micro_usd or 0 for step in steps),
        )

    def calls(self, *, but: str) -> list[Call]:
        """Return the tool calls begun so far, except the step `but` and what was not called.

        A call that was refused because its review no longer held is asked for again, and that
        is no repetition; patterns bound how often.
        """
        return [
            Call(step.asked["tool"], step.asked["args"])
            for step in list(self.steps.values())
            if step.kind == "use" and step.key != but and step.failed != REVIEW_CHANGED
        ]

    def replies(self) -> dict[str, Reply]:
        return {k: Reply(s.reply, s.failed) for k, s in self.steps.items() if s.ended_at}
