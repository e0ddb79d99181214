"""The runs that this process is driving, whether polled or announced."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

from django.conf import settings

from agents.engine.turns.advance import advance

log = logging.getLogger(__name__)


class ActiveRuns:
    """One process's share of the runs."""

    def __init__(self) -> None:
        self.drives: dict[asyncio.Task[bool], UUID] = {}
        self.ended = asyncio.Event()  # set at the end of each drive; the waiting code clears it

    @property
    def room(self) -> int:
        """Return how many runs may be started now."""
        return max(0, slots() - len(self.drives))

    def start(self, run_id: UUID) -> asyncio.Task[bool]:
        """Advance a run in a task of its own; two tasks for one run do no harm.

        The task returns False if the run could not be claimed.
        """
        drive = asyncio.create_task(_advance(run_id))
        self.drives[drive] = run_id
        drive.add_done_callback(self._end)
        return drive

    def _end(self, drive: asyncio.Task[bool]) -> None:
        del self.drives[drive]
        self.ended.set()

    async def finish(self) -> None:
        """Give the runs OPSCONSOLE_DRAIN_SECONDS to pause; then cancel them."""
        if not self.drives:
            return
        drives = list(self.drives)
        _, late = await asyncio.wait(drives, timeout=settings.OPSCONSOLE_DRAIN_SECONDS)
        for drive in late:
            drive.cancel()
        await asyncio.gather(*drives, return_exceptions=True)


def slots() -> int:
    """Return how many runs one worker drives at once."""
    return int(settings.OPSCONSOLE_WORKER_CONCURRENCY)


async def _advance(run_id: UUID) -> bool:
    try:
        return await advance(run_id) is not None
    except Exception:
        log.exception("Run %s could not be moved; its lease will run out", run_id)
        return True
