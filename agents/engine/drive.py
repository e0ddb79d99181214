"""Drive a flow: replay its recorded steps, then do new ones.

One loop over strands. A strand that needs a person pauses while its siblings run, so a run waits
exactly when nothing is left to do and the root has not ended. The same holds for a strand that must
wait for a time: its siblings' work is kept.

A strand's result is committed at once while others are busy, as they may take long and a crash
would lose it. If none is busy, it is committed with the next step (decision 1).
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeAlias

from agents.core.requests import Flow, Json, Reply, Request, Strand, Together

# A strand, and the coroutine that answers its request.
_Question: TypeAlias = "tuple[Strand, Callable[[], Coroutine[Any, Any, Reply]]]"


class WaitsForPerson(Exception):
    """The step waits for a person, or for an external agent."""


class Later(Exception):
    """The run can continue only after `pause`; until then it occupies no worker.

    A duration, not a time: only the database's clock decides.

    `why` is recorded. `is_fruitless` means that the run itself may be at fault: after MAX_CLAIMS
    such claims in a row it is not claimed again.
    """

    def __init__(self, pause: timedelta, why: str = "", *, is_fruitless: bool = False) -> None:
        super().__init__(str(pause))
        self._ends = time.monotonic() + pause.total_seconds()
        self.why, self.is_fruitless = why, is_fruitless

    @property
    def pause(self) -> timedelta:
        """Return the rest of the pause: siblings may have been busy since it began."""
        return timedelta(seconds=max(0.0, self._ends - time.monotonic()))


class NotHere(Exception):
    """A call may not begin in this transaction; why, if it may not begin at all."""


class Executor(Protocol):
    """Answers a pattern's requests."""

    def recall(self, key: str, request: Request) -> Reply | None:
        """Return the recorded reply or None. Raises WaitsForPerson, Diverged."""

    async def do(self, key: str, request: Request) -> Reply:
        """Execute the request and record the reply. Raises WaitsForPerson, Later."""

    async def keep(self) -> None:
        """Commit the replies so far, because other strands are still busy."""


async def drive(flow: Flow | Strand, executor: Executor) -> Strand:
    """Advance `flow` as far as possible. The strand has no outcome if a person has to decide.

    A strand that an earlier drive returned goes on where it waited, without a replay. Raises
    Later, after committing all replies, once only waiting can help.
    """
    root = flow if isinstance(flow, Strand) else Strand(flow)
    going = _Drive(executor)
    for strand in root.all():
        going.look_up(strand)
    if root is not flow:
        going.ready.append((root, None))
    await going.advance()
    return root


@dataclass
class _Drive:
    """The strands of one drive: those with a reply, and those that ask for one."""

    executor: Executor
    ready: deque[tuple[Strand, Reply | Json]] = field(default_factory=deque)
    questions: list[_Question] = field(default_factory=list)
    later: list[Later] = field(default_factory=list)

    async def advance(self) -> None:
        """Go on until every strand waits or has ended. Raises Later."""
        busy: dict[asyncio.Task[Reply], Strand] = {}
        try:
            while self.ready or busy or self.questions:
                while self.ready:
                    self._step(*self.ready.popleft())
                if len(self.questions) == 1 and not busy:  # nothing else runs, so no task is needed
                    strand, do = self.questions.pop()
                    await self._came(strand, do())
                    _heed_cancel()
                for strand, do in self.questions:
                    busy[asyncio.ensure_future(do())] = strand
                self.questions.clear()
                if busy:
                    done, _ = await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        await self._came(busy.pop(task), task)
                if self.ready and busy:
                    await self.executor.keep()
            if self.later:
                await self.executor.keep()
                raise min(self.later, key=lambda each: each.pause)
        finally:
            for task in busy:
                task.cancel()
            if busy:
                await asyncio.gather(*busy, return_exceptions=True)

    def _step(self, strand: Strand, reply: Reply | Json) -> None:
        """Give a strand its reply and handle its next request."""
        request = strand.send(reply)
        if request is None:
            joined = strand.parent.joined_outcomes() if strand.parent else None
            if strand.parent and joined is not None:
                self.ready.append((strand.parent, joined))
            self._next_in_line(strand)
            return
        key = strand.key(request.label)
        if isinstance(request, Together):
            strand.held.extend(strand.branch(key, request))
            for _ in range(request.at_once or len(strand.held)):
                self._begin_one(strand)
            if not strand.children:
                self.ready.append((strand, {}))
            return
        strand.asked = key, request
        if not self.look_up(strand):
            self._next_in_line(strand)

    def look_up(self, strand: Strand) -> bool:
        """Find the reply that a strand waits for, or ask for it. Return whether it goes on."""
        if strand.asked is None:
            return False
        try:
            recorded = self.executor.recall(*strand.asked)
        except WaitsForPerson:
            return False
        if recorded is not None:
            self.ready.append((strand, recorded))
        else:
            self.questions.append((strand, partial(self.executor.do, *strand.asked)))
        return True

    def _next_in_line(self, strand: Strand) -> None:
        """Start a waiting sibling instead of a strand that has ended or waits for a person."""
        if strand.parent:
            self._begin_one(strand.parent)

    def _begin_one(self, parent: Strand) -> None:
        if parent.held:
            self.ready.append((parent.held.popleft(), None))

    async def _came(self, strand: Strand, doing: Awaitable[Reply]) -> None:
        """Give a finished reply to its strand."""
        try:
            self.ready.append((strand, await doing))
        except WaitsForPerson:  # the strand waits until a person decides
            self._next_in_line(strand)
        except Later as wait:
            self.later.append(wait)


def _heed_cancel() -> None:
    """Cancel the drive if it was cancelled, even if the step mistook that for its own timeout."""
    with suppress(RuntimeError):  # driven without an event loop, so nobody can cancel it
        task = asyncio.current_task()
        if task and task.cancelling():
            raise asyncio.CancelledError
