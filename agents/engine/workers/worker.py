"""A worker: takes runs that can go on, drives many at once, sweeps, and stops when told to."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from django.conf import settings
from django.db import DatabaseError
from django.utils.module_loading import import_string

from agents import llm
from agents.engine import lease
from agents.engine.runtime.database import in_database
from agents.engine.runtime.threads import close_connections
from agents.engine.upkeep.sweep import sweep
from agents.engine.workers.active_runs import ActiveRuns
from agents.engine.workers.fair_turns import StartRound, Turns
from agents.models import Worker

log = logging.getLogger(__name__)

SWEEPS = 3  # in the length of a lease
ENDING = 2.5  # seconds beyond the drain in which runs are given back
CLOSING = 1.0  # seconds that threads still in a call are given at the end

# By the name that OPSCONSOLE_DISPATCH gives.
TAKERS = {
    "polling": "agents.engine.workers.worker.Poller",
    "procrastinate": "agents.engine.workers.listening.Listener",
}


Beside: TypeAlias = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


async def work(*, once: bool = False, beside: Beside | None = None) -> bool:
    """Take runs until told to stop (SIGTERM, SIGINT); with `once`, until none is claimable.

    `beside` is done meanwhile, and left where it is at the end; with `once`, it comes last.

    Return False where a thread has not come back, of a tool or for want of a database: the process
    need not wait for it.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if not once:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    working, told = (
        asyncio.create_task(_work(stop, once=once, beside=beside)),
        asyncio.create_task(stop.wait()),
    )
    await asyncio.wait({working, told}, return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    longest = settings.OPSCONSOLE_DRAIN_SECONDS + ENDING if stop.is_set() else None
    await asyncio.wait({working}, timeout=longest)
    if working.done():
        return await working
    # A thread waits for a silent database, and neither can be made to give up.
    log.error("The database does not answer: runs were not given back, their leases will run out")
    working.cancel()
    await asyncio.wait({working}, timeout=CLOSING)
    return False


async def _work(stop: asyncio.Event, *, once: bool, beside: Beside | None) -> bool:
    active_runs = ActiveRuns()
    also = asyncio.create_task(beside(stop)) if beside and not once else None
    try:
        async with lease.keep_leases(is_worker=True):
            if once:  # the rows say what is left to do, however bells are rung
                await Poller(stop, active_runs).run(once=True)
                await (beside(stop) if beside else asyncio.sleep(0))
            else:
                await import_string(TAKERS[settings.OPSCONSOLE_DISPATCH])(stop, active_runs).run()
            await active_runs.finish()
        await _give_back()
    finally:
        if also:
            also.cancel()
        await llm.close()
        came_back = close_connections(CLOSING)
    return came_back


async def _give_back() -> None:
    """Queue the runs that this worker still holds. Without a database their leases run out."""
    try:
        await in_database(lease.release_runs)
        await in_database(Worker.leave, lease.OWNER)
    except DatabaseError:
        log.exception("Runs could not be given back; their leases will run out")


class Poller:
    """Look for claimable runs, OPSCONSOLE_POLL_SECONDS apart."""

    def __init__(self, stop: asyncio.Event, active_runs: ActiveRuns) -> None:
        self.stop = stop
        self.active_runs = active_runs
        self.turns = Turns()
        self.swept_at = 0.0

    async def run(self, *, once: bool = False) -> None:
        while not self.stop.is_set():
            if time.monotonic() - self.swept_at >= sweep_interval():
                self.swept_at = time.monotonic()
                await run_sweep()
            turn = await self._take(once=once)
            if once and not turn.runs and not self.active_runs.drives:
                return
            await self._pause(turn)

    async def _take(self, *, once: bool) -> StartRound:
        """Start the runs whose turn it is, as many as there is room for. Return them.

        Who works on until none is left must not take a database that is away for an empty one.
        """
        try:
            turn = await in_database(self.turns.choose, set(self.active_runs.drives.values()))
        except Exception:
            if once:
                raise
            log.exception("Looking for runs failed")
            return StartRound([])
        for run_id in turn.runs:
            self.active_runs.start(run_id)
        return turn

    async def _pause(self, turn: StartRound) -> None:
        """Wait for the next poll, for a free slot if there is none, or for the order to stop."""
        if turn.runs:
            await asyncio.sleep(0)
            return
        # While there is room, a run that ends is no reason to look: with a thousand under way
        # one ends every moment, and looking costs the more the more of them there are.
        self.active_runs.ended.clear()
        may_take = self.active_runs.room and not turn.is_held_back
        words = [self.stop] if may_take else [self.stop, self.active_runs.ended]
        told = {asyncio.create_task(word.wait()) for word in words}
        await asyncio.wait(
            told,
            timeout=settings.OPSCONSOLE_POLL_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in told:
            task.cancel()


def sweep_interval() -> float:
    """Return seconds between two sweeps of one worker."""
    return lease.length().total_seconds() / SWEEPS


async def run_sweep() -> None:
    """Sweep. A sweep that fails is made again; the runs must not end with it."""
    try:
        await in_database(sweep)
    except Exception:
        log.exception("The sweep failed")
