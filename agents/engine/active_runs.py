"""The runs that this process is driving, however they came to it."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

from django.conf import settings

from agents.engine.advance import advance

log = logging.getLogger(__name__)


class ActiveRuns:
    """One process's share of the runs."""

    def __init__(self) -> None:
        self.drives: dict[asyncio.Task[bool], UUID] = {}
        self.ended = asyncio.Event()  # set by each drive that ends; who waits for it clears it

    @property
    def room(self) -> int:
        """How many runs may be started now."""
        return max(0, slots() - len(self.drives))

    def start(self, run_id: UUID) -> asyncio.Task[bool]:
        """Advance a run in a task of its own; two for one run do no harm.

        The task returns False where the run was not to be had.
        """
        drive = asyncio.create_task(_advance(run_id))
        self.drives[drive] = run_id
        drive.add_done_callback(self._end)
        return drive

    def _end(self, drive: asyncio.Task[bool]) -> None:
        del self.drives[drive]
        self.ended.set()

    async def finish(self) -> None:
        """Give the runs OPSCONSOLE_DRAIN_SECONDS to come to a pause; then break them off."""
        if not self.drives:
            return
        drives = list(self.drives)
        _, late = await asyncio.wait(drives, timeout=settings.OPSCONSOLE_DRAIN_SECONDS)
        for drive in late:
            drive.cancel()
        await asyncio.gather(*drives, return_exceptions=True)


def slots() -> int:
    """Return how many runs one worker drives at a time."""
    return int(settings.OPSCONSOLE_WORKER_CONCURRENCY)


async def _advance(run_id: UUID) -> bool:
    try:
        return await advance(run_id) is not None
    except Exception:
        log.exception("Run %s could not be moved; its lease will run out", run_id)
        return True
