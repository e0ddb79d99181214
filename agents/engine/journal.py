"""The recorded steps of a run, and the recording of new ones.

Writes wait in memory until the run is about to act on the outside world. Then one transaction
commits them all and proves that the run is still ours. A crash before that loses only repeatable
work. A call that changes and costs nothing needs no commit before it; during a long call, pending
writes are committed. One class, since reading, batching and budgets share the recorded steps.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from threading import RLock
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model
from django.utils import timezone

from agents.core.json_forms import as_stored, digest_request, fingerprint
from agents.core.limits import REVIEW_CHANGED, Call, Spent, active
from agents.core.requests import Diverged, Json, Reply, Request, Say, Strand
from agents.db.compiled import CompiledSelect, Param, attach, new_row
from agents.engine import lease
from agents.engine.commit import Commit, Draft, NewRow, UnderLock
from agents.engine.desk.company import LookedUp
from agents.engine.drive import WaitsForPerson
from agents.engine.runtime.crashpoints import crashpoint
from agents.engine.runtime.database import in_database
from agents.models import Escalation, Run, Step
from agents.models.record import Entry
from agents.models.runs import give_pseudonyms, taken_by

T = TypeVar("T")
_MOST_ATTEMPTS = 32_767  # the column's maximum; an outage may last for weeks
AWAIT = "await"  # the kind of a step that an external agent answers
USE = "use"  # the kind of a step that calls a tool
SOON = 0.05  # seconds into a call after which pending writes are committed, for people who watch
STEPS = CompiledSelect(
    lambda: Step.objects.filter(run=Param("run"), position__gte=Param("first")).order_by("position")
)
_POSITION = attrgetter("position")


def _tokens_of(step: Step) -> int:
    return step.tokens_in + step.tokens_out + step.tokens_lost


class Journal:
    """The steps of one run that this worker has claimed.

    Of a run that nobody has driven since `kept`, only steps that were open then are read. `steps`
    are all of them, if the caller has read them.
    """

    def __init__(
        self, run: Run, kept: "Journal | None" = None, steps: Sequence[Step] | None = None
    ) -> None:
        self.run = run
        self.kept_at = time.monotonic()  # the last time at which the run was certainly ours
        # Before its first claim a run has no steps.
        self.steps: dict[str, Step] = dict(kept.steps) if kept else {}
        if steps is None and run.fence > 1:
            first = min((step.position for step in kept._open.values()), default=0) if kept else 0
            steps = STEPS.all(run=run.pk, first=first)
        self.steps |= {step.key: step for step in steps or ()}
        for step in self.steps.values():
            attach(step, "run", run)
        # Where a flow goes on that this process left waiting.
        self.strand: Strand | None = kept.strand if kept else None
        self.done: dict[int, Json] = {}  # results of calls that wrote, by their step's key
        self.escalated: set[int] = set()
        self.ahead: LookedUp | None = None  # the desk's look-up
        self.admitted: set[str] = set()  # calls that the transaction of their review admitted
        # Cached, as reading them at each step would make a long run's cost quadratic.
        self.uses = sorted((s for s in self.steps.values() if s.kind == USE), key=_POSITION)
        self._calls: dict[str, Call] = {}
        self._position = max(map(_POSITION, self.steps.values()), default=0)
        self._used: Counter[str] = Counter()  # by steps that have ended
        self._open: dict[str, Step] = {k: s for k, s in self.steps.items() if not s.ended_at}
        for step in [step for step in self.steps.values() if step.ended_at]:
            self._count_in(step)
        under_way = [step.pk for step in self._open.values() if step.kind != AWAIT]
        if under_way:
            # Of any step, ended or not: a person may have decided since.
            requests = Escalation.objects.filter(step__in=under_way)
            self.escalated.update(requests.values_list("step_id", flat=True))
        self.has_turned_away = False  # a request was not opened, so its flow can continue
        self._draft = Draft()
        self._unfenced: list[UnderLock] = []  # not committed yet
        self._lock = asyncio.Lock()
        self._lost: BaseException | None = None  # the error of a failed commit
        # Parallel flows write from the event loop and from database threads.
        self._guard = RLock()
        self.active_time = _ActiveTime(self.steps.values())

    def recall(self, key: str, request: Request) -> Reply | None:
        """Return the recorded reply, or None if the step has to be done.

        Raises WaitsForPerson if a person or an external agent has to answer, Diverged if another
        request was recorded.
        """
        step = self.steps.get(key)
        if step is None:
            return None
        if step.fingerprint != fingerprint(request):
            # The message is logged, so it does not quote the request.
            raise Diverged(f"{key}: another {step.kind} is asked than was recorded")
        if step.pk in self.escalated or (step.kind == AWAIT and step.ended_at is None):
            raise WaitsForPerson(key)
        return Reply(step.reply, step.failed) if step.ended_at else None

    def begin(self, key: str, request: Request) -> Step:
        """Open a step, or reopen it after a crash. The write waits for a flush."""
        known = self.steps.get(key)
        if known:
            self.count_retry(known, "its last try did not end")
            return known
        digest, question = digest_request(request)
        with self._guard:
            self._position += 1  # not their count: a failed commit may have left a gap
            step = self.steps[key] = new_row(
                Step,
                run=self.run,
                position=self._position,
                key=key,
                kind=type(request).__name__.lower(),
                fingerprint=digest,
                asked=question,
                begun_at=timezone.now(),
            )
            if step.kind == USE:
                self.uses.append(step)
            if isinstance(request, Say):
                step.ended_at = step.begun_at
            else:
                self._open[key] = step
            self._draft.begin(step)
            if isinstance(request, Say):
                self.tell(Entry(request.kind, {"key": key, **question["facts"]}))
        return step

    def reserve(self, step: Step, tokens: int) -> None:
        """Count tokens as used by a step, in case its answer never comes."""
        step.tokens_lost += tokens
        self.note(step)

    def note(self, step: Step) -> None:
        """Record a step's usage so far, although it does not end."""
        with self._guard:
            self._draft.change(step)

    def count_retry(self, step: Step, why: str) -> None:
        """Record that a call failed and is being repeated."""
        step.attempts = min(step.attempts + 1, _MOST_ATTEMPTS)
        facts = {"key": step.key, "attempt": step.attempts, "why": why}
        with self._guard:
            self._draft.change(step)
            self.tell(Entry("step.retried", facts))

    def finish(self, step: Step, reply: Reply, **facts: Json) -> Reply:
        """End a step with its reply. Return the reply as a replay will see it."""
        step.reply, step.failed = as_stored(reply.value), reply.failed
        step_facts = {"key": step.key, **facts, **({"failed": step.failed} if step.failed else {})}
        with self._guard:
            self._draft.end(step)
            if self._open.pop(step.key, None):
                self._count_in(step)
            self.tell(Entry("step.failed" if step.failed else "step.done", step_facts))
        return Reply(step.reply, step.failed)

    def turn_away(self, failed: str, step: Step, commit: Commit) -> None:
        """End, under lock, a step whose request is not opened after all."""
        step.failed, step.ended_at, self.has_turned_away = failed, commit.at, True
        commit.update(step, "failed", "ended_at")
        commit.say("step.failed", {"key": step.key, "failed": failed})

    def say(self, key: str, request: Say) -> Reply:
        """Record a line as a step, so that a replay does not repeat it."""
        self.begin(key, request)
        return Reply()

    def tell(self, *entries: Entry) -> None:
        """Add events to the run's chain with the next commit."""
        with self._guard:
            self._draft.lines += entries

    def insert(
        self,
        model: type[Model],
        columns: Mapping[str, Json],
        *,
        keys: Mapping[str, CompiledSelect[Any]],
    ) -> None:
        """Insert a row with the next commit, by its columns; `keys` are as in `send_columns`."""
        with self._guard:
            self._draft.rows.append(NewRow(model, columns, keys))

    def under_lock(self, write: UnderLock) -> None:
        """Run `write` within the next commit."""
        with self._guard:
            self._draft.lines.append(write)

    def write_unfenced(self, write: UnderLock) -> None:
        """Record an outcome in the outside world: `write` runs even if the run was lost."""
        with self._guard:  # a commit ending now changes the list
            self.under_lock(write)
            self._unfenced.append(write)

    def take_draft(self) -> Draft:
        """Return the pending draft, and begin a new one."""
        with self._guard:
            draft, self._draft = self._draft, Draft()
            return draft

    def flush_unfenced(self) -> None:
        """Commit outcomes in the outside world although the run is no longer ours."""
        writes = list(self._unfenced)
        if writes:
            with transaction.atomic():
                run = Run.objects.select_for_update().get(pk=self.run.pk)
                if names := taken_by(self.run):  # which the outcomes quote
                    give_pseudonyms(run, names)
                with Commit(run, at=timezone.now()) as commit:
                    for write in writes:
                        write(commit)
            self._forget(writes)

    async def flush(self) -> None:
        """Commit pending writes, and wait for a commit already under way. Raises LostRun."""
        await self._commit_waiting(None)

    @asynccontextmanager
    async def soon(self) -> AsyncIterator[None]:
        """Commit pending writes during the block if it takes long. Raises LostRun."""
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

    async def transact(self, work: Callable[[Commit], T]) -> T:
        """Commit pending writes and `work` in one transaction. Return the result of `work`."""
        results: list[T] = []
        await self._commit_waiting(lambda commit: results.append(work(commit)))
        return results[0]

    async def _commit_waiting(self, work: UnderLock | None) -> None:
        async with self._lock:
            if self._lost:  # later writes depend on the lost ones
                raise self._lost
            if not (work or self._draft):
                return
            # Not retried: `work` may change the journal, so a database error ends the drive.
            draft = self.take_draft()
            commit = in_database(self._commit, draft, work, tries=1)
            try:
                await asyncio.shield(commit)
            except asyncio.CancelledError:
                # Its thread continues. Nothing else may touch the run meanwhile.
                await asyncio.gather(commit, return_exceptions=True)
                raise
            except BaseException as error:
                self._lost = error
                raise

    def _commit(self, draft: Draft, work: UnderLock | None) -> None:
        crashpoint("journal.before_commit")
        at, done, kept_at = timezone.now(), list(draft.lines), time.monotonic()
        with transaction.atomic():
            self.run.assert_lease()
            with Commit(self.run, at=at, lease=lease.length()) as commit:
                commit.take(draft)
                if work:
                    work(commit)
                    late = self.take_draft()  # what `work` itself recorded
                    commit.take(late)
                    done += late.lines
        self.kept_at = kept_at
        self._forget(done)
        crashpoint("journal.after_commit")

    def _forget(self, done: Sequence[object]) -> None:
        """Drop the unfenced writes that were committed."""
        with self._guard:
            self._unfenced = [write for write in self._unfenced if write not in done]

    def spending(self) -> Spent:
        """Return what the run has used, open calls included."""
        with self._guard:
            open_steps, used = list(self._open.values()), self._used
            return Spent(
                seconds=self.active_time.seconds(),
                tokens=used["tokens"] + sum(map(_tokens_of, open_steps)),
                cost_micro_usd=used["cost"] + sum(s.cost_micro_usd or 0 for s in open_steps),
            )

    def _count_in(self, step: Step) -> None:
        """Add the usage of a step that has ended."""
        self._used["tokens"] += _tokens_of(step)
        self._used["cost"] += step.cost_micro_usd or 0

    def calls(self, *, but: str) -> list[Call]:
        """Return the tool calls begun so far, except step `but` and calls that were not made.

        A call refused because its review no longer held may be requested again: that is no
        repetition, and patterns limit it.
        """
        made = [
            step for step in list(self.uses) if step.key != but and step.failed != REVIEW_CHANGED
        ]
        for step in made:
            if step.key not in self._calls:
                self._calls[step.key] = Call(step.asked["tool"], step.asked["args"])
        return [self._calls[step.key] for step in made]

    def replies(self) -> dict[str, Reply]:
        return {k: Reply(s.reply, s.failed) for k, s in self.steps.items() if s.ended_at}


# The active time of a run: recorded before, and measured in this drive.


class _ActiveTime:
    """Time of parallel calls counts once; assumed time is added."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._past = active(step.span for step in steps)
        self._spans: list[tuple[float, float]] = []
        self._since: dict[str, float] = {}  # start of each open call, by its step's key
        self._assumed = 0.0

    @contextmanager
    def measure(self, step: Step) -> "Iterator[_Timer]":
        """Count the block's duration as active time of a step, unless it clears `counts`."""
        started, timer = time.monotonic(), _Timer()
        self._since[step.key] = started
        try:
            yield timer
        finally:
            del self._since[step.key]
            if timer.counts:
                ended = time.monotonic()
                step.seconds += ended - started
                self._spans.append((started, ended))
            if not self._since:  # later calls overlap none of these
                self._past, self._spans = self._past + active(self._spans), []

    def assume(self, step: Step, seconds: float) -> None:
        """Count time as used by a step although nobody waited for it."""
        step.seconds += seconds
        self._assumed += seconds

    def seconds(self) -> float:
        """Return the active time so far in seconds, open calls included."""
        now = time.monotonic()
        under_way = [(since, now) for since in list(self._since.values())]
        return self._past + active([*self._spans, *under_way]) + self._assumed


@dataclass
class _Timer:
    """A running measurement."""

    counts: bool = True  # towards the run's time
