"""Carry out calls in the process that receives them, as a worker would.

A proposal of a simple call takes its run and commits the intent, all in its own transaction. The
process's event loop then drives the run, while the request waits for a moment. Workers get what
waits, hangs or is not simple; without `carrying_out`, they get all.
"""

import asyncio
import logging
from asyncio import run_coroutine_threadsafe
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, suppress
from threading import BoundedSemaphore
from typing import NamedTuple, TypeAlias

from django.conf import settings
from django.db import DatabaseError, connection

from agents.engine import lease
from agents.engine.drive import NotHere
from agents.engine.journal import Journal
from agents.engine.turns.advance import go_on
from agents.engine.workers.worker import ENDING, ActiveRuns, give_back
from agents.external.calls import ProposedCall
from agents.shell.refusal import Refused

log = logging.getLogger(__name__)

MOST = 16  # calls at once, as many as there are threads for tools
HOLD = 1.0  # seconds for which a request waits for its call

Begun: TypeAlias = Callable[[Journal], object]  # gets the journal of a call that is begun


class _Hands(NamedTuple):
    """What a process carries out, in its event loop."""

    loop: asyncio.AbstractEventLoop
    room: BoundedSemaphore
    active: ActiveRuns

    async def drive(self, journal: Journal) -> None:
        try:
            await self.active.start(journal.run.pk, go_on(journal))
        finally:
            self.room.release()


_hands: _Hands | None = None


def carry_out(put: Callable[[Begun | None], ProposedCall]) -> ProposedCall:
    """Record a call, and carry it out if this process may. Return it when over, or after HOLD.

    `put` records it. Told where to, it begins a simple call too, or raises NotHere with nothing
    recorded. A thread of the call's own request has to call this.
    """
    hands = _hands
    if hands is None or connection.in_atomic_block or not hands.room.acquire(blocking=False):
        return put(None)
    begun, driving = list[Journal](), list[Future[None]]()
    try:
        call = put(begun.append)
        driving += [run_coroutine_threadsafe(hands.drive(one), hands.loop) for one in begun]
    except (DatabaseError, Refused):
        raise
    except Exception as error:
        if not isinstance(error, NotHere):  # our own bug: a worker meets it too, and ends the run
            log.exception("A call is left to a worker")
        call = put(None)
    finally:
        if not driving:
            hands.room.release()
    wait(driving, timeout=HOLD)
    return call


@asynccontextmanager
async def carrying_out() -> AsyncIterator[None]:
    """Let this process carry out calls during the block, and then drain them as a worker does."""
    global _hands
    if not settings.OPSCONSOLE_CARRY_OUT:
        yield
        return
    async with lease.keep_leases():
        active = ActiveRuns()
        _hands = _Hands(asyncio.get_running_loop(), BoundedSemaphore(MOST), active)
        try:
            yield
        finally:
            _hands = None
            with suppress(TimeoutError):  # a silent database must not keep the process
                async with asyncio.timeout(settings.OPSCONSOLE_DRAIN_SECONDS + ENDING):
                    await active.finish()
                    await give_back()
