"""Drive a flow: replay what is recorded, do what is not.

One loop over strands. A strand that needs a person is left where it is and its siblings run
on, so a run waits exactly when nothing is left to do and the root has not ended. So it is with
one that has to be gone on with later: what its siblings have under way is not thrown away.

What a strand came to while others are busy is kept at once: they may take long, and a crash
would lose it. With nobody busy it is committed with the next step instead (decision 2).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeAlias

from agents.core.replay import Reply, Strand
from agents.core.requests import Flow, Json, Request, Together

# A strand, and the coroutine that answers its request.
_Asked: TypeAlias = "tuple[Strand, Callable[[], Coroutine[Any, Any, Reply]]]"


class WaitsForPerson(Exception):
    """The step waits for a person."""


class Later(Exception):
    """The run can go on, but not before `pause` is over; until then it holds no worker.

    A length and no time: by whose clock a time is meant, only the database can say.

    `why` goes on record. `is_fruitless` says that the run itself may be why it comes no further:
    claims that end so add up, and after MAX_CLAIMS in a row there is no other.
    """

    def __init__(self, pause: timedelta, why: str = "", *, is_fruitless: bool = False) -> None:
        super().__init__(str(pause))
        self._ends = time.monotonic() + pause.total_seconds()
        self.why, self.is_fruitless = why, is_fruitless

    @property
    def pause(self) -> timedelta:
        """Return the time left of the pause: siblings may have been busy since it began."""
        return timedelta(seconds=max(0.0, self._ends - time.monotonic()))


class Executor(Protocol):
    """Answers what a pattern requests."""

    def recall(self, key: str, request: Request) -> Reply | None:
        """Return the recorded reply or None. Raises WaitsForPerson, Diverged."""

    async def do(self, key: str, request: Request) -> Reply:
        """Do it and record the reply. Raises WaitsForPerson for a person, Later for a time."""

    async def keep(self) -> None:
        """Commit what came back, because others are still busy."""


async def drive(flow: Flow, world: Executor) -> Strand:
    """Take `flow` as far as it goes. The strand has no outcome if a person has to decide.

    Raises Later, with all that came back kept, once only time can bring it further.
    """
    root = Strand(flow)
    ready: deque[tuple[Strand, Reply | Json]] = deque([(root, None)])
    asked: list[_Asked] = []
    busy: dict[asyncio.Task[Reply], Strand] = {}
    later: list[Later] = []
    try:
        while ready or busy:
            while ready:
                strand, reply = ready.popleft()
                _advance(strand, reply, world, ready, asked)
            if len(asked) == 1 and not busy:  # nothing else runs: no task is needed
                strand, do = asked.pop()
                await _came(strand, do(), ready, later)
                _heed_cancel()
            for strand, do in asked:
                busy[asyncio.ensure_future(do())] = strand
            asked.clear()
            if busy:
                await _until_one_is_done(ready, busy, later)
            if ready and busy:
                await world.keep()
        if later:
            await world.keep()
            raise min(later, key=lambda each: each.pause)
    finally:
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
    return root


def _advance(
    strand: Strand,
    reply: Reply | Json,
    world: Executor,
    ready: deque[tuple[Strand, Reply | Json]],
    asked: list[_Asked],
) -> None:
    """Give a strand its reply and see to what it asks for next."""
    request = strand.send(reply)
    if request is None:
        joined = strand.parent.joined_outcomes() if strand.parent else None
        if strand.parent and joined is not None:
            ready.append((strand.parent, joined))
        _next_in_line(strand, ready)
        return
    key = strand.key(request.label)
    if isinstance(request, Together):
        strand.held.extend(strand.branch(key, request))
        for _ in range(request.at_once or len(strand.held)):
            _begin_one(strand, ready)
        if not strand.children:
            ready.append((strand, {}))
        return
    try:
        recorded = world.recall(key, request)
    except WaitsForPerson:
        _next_in_line(strand, ready)
        return
    if recorded is not None:
        ready.append((strand, recorded))
    else:
        asked.append((strand, partial(world.do, key, request)))


def _next_in_line(strand: Strand, ready: deque[tuple[Strand, Reply | Json]]) -> None:
    """Let a sibling begin in the place of a strand that has ended, or waits for a person."""
    if strand.parent:
        _begin_one(strand.parent, ready)


def _begin_one(parent: Strand, ready: deque[tuple[Strand, Reply | Json]]) -> None:
    if parent.held:
        ready.append((parent.held.popleft(), None))


def _heed_cancel() -> None:
    """Cancel the drive if it was told to, although the step took that for its own timeout."""
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


async def _until_one_is_done(
    ready: deque[tuple[Strand, Reply | Json]],
    busy: dict[asyncio.Task[Reply], Strand],
    later: list[Later],
) -> None:
    """Wait, and hand each reply that has come to its strand."""
    done, _ = await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        await _came(busy.pop(task), task, ready, later)


async def _came(
    strand: Strand,
    doing: Awaitable[Reply],
    ready: deque[tuple[Strand, Reply | Json]],
    later: list[Later],
) -> None:
    """Hand a reply, once it has come, to its strand."""
    try:
        ready.append((strand, await doing))
    except WaitsForPerson:  # the strand stays where it is until somebody decides
        _next_in_line(strand, ready)
    except Later as wait:
        later.append(wait)
