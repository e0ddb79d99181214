"""The embedded worker: polls for claimable runs, drives many at once, sweeps."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now

from agents import llm
from agents.core.states import RunState
from agents.engine import lease
from agents.engine.advance import advance
from agents.engine.database import in_database
from agents.engine.sweep import sweep
from agents.engine.threads import close_connections
from agents.models import Run

log = logging.getLogger(__name__)

GRACE = 10.0  # seconds that runs under way are given when the worker is told to stop
SWEEPS = 3  # in the length of a lease


async def work(*, once: bool = False) -> None:
    """Take runs until told to stop (SIGTERM, SIGINT); with `once`, until none is claimable."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if not once:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    try:
        async with lease.kept():
            await Worker(stop).run(once=once)
    finally:
        await llm.close()
        close_connections()


class Worker:
    """One process's share of the runs."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop
        self.busy: dict[UUID, asyncio.Task[object]] = {}
        self.swept_at = 0.0

    async def run(self, *, once: bool) -> None:
        while not self.stop.is_set():
            await self._sweep_when_due()
            taken = await self._take()
            if once and not taken and not self.busy:
                return
            await self._pause(taken)
        await self._finish()

    async def _sweep_when_due(self) -> None:
        if time.monotonic() - self.swept_at < settings.OPSCONSOLE_LEASE_SECONDS / SWEEPS:
            return
        self.swept_at = time.monotonic()
        try:
            await in_database(sweep)
        except Exception:  # a sweep that fails is made again; the runs must not end with it
            log.exception("The sweep failed")

    async def _take(self) -> int:
        """Start every claimable run there is room for. Return how many."""
        room = settings.OPSCONSOLE_WORKER_CONCURRENCY - len(self.busy)
        if room <= 0:
            return 0
        try:
            found = await in_database(claimable, room + len(self.busy))
        except Exception:
            log.exception("Looking for runs failed")
            return 0
        fresh = [run_id for run_id in found if run_id not in self.busy][:room]
        for run_id in fresh:
            self.busy[run_id] = asyncio.create_task(self._advance(run_id))
        return len(fresh)

    async def _advance(self, run_id: UUID) -> None:
        try:
            await advance(run_id)
        except Exception:
            log.exception("Run %s could not be moved; its lease will run out", run_id)
        finally:
            self.busy.pop(run_id, None)

    async def _pause(self, taken: int) -> None:
        """Wait for the next poll, for a run that ends, or for the word to stop."""
        if taken:
            await asyncio.sleep(0)
            return
        waits = {asyncio.ensure_future(self.stop.wait()), *self.busy.values()}
        await asyncio.wait(
            waits,
            timeout=settings.OPSCONSOLE_POLL_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        for wait in waits - set(self.busy.values()):
            wait.cancel()

    async def _finish(self) -> None:
        """Give runs under way their grace; what is cut off is taken over when its lease ends."""
        if self.busy:
            await asyncio.wait(list(self.busy.values()), timeout=GRACE)
        for task in list(self.busy.values()):
            task.cancel()


def claimable(limit: int) -> list[UUID]:
    """Return runs that may be claimed now, the longest waiting first."""
    queued = Run.objects.filter(state=RunState.QUEUED).exclude(wake_at__gt=Now())
    return list(queued.order_by("created_at", "pk").values_list("pk", flat=True)[:limit])
