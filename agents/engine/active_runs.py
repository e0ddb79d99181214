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
        self.drives: dict[asyncio.Task[None], UUID] = {}
        self.ended = asyncio.Event()  # set by each drive that ends; who waits for it clears it

    @property
    def room(self) -> int:
        """How many runs may be started now."""
        return max(0, int(settings.OPSCONSOLE_WORKER_CONCURRENCY) - len(self.drives))

    def start(self, run_id: UUID) -> asyncio.Task[None]:
        """Advance a run in a task of its own; two for one run do no harm."""
        drive = asyncio.create_task(_advance(run_id))
        self.drives[drive] = run_id
        drive.add_done_callback(self._end)
        return drive

    def _end(self, drive: asyncio.Task[None]) -> None:
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


async def _advance(run_id: UUID) -> None:
    try:
        await advance(run_id)
    except Exception:
        log.exception("Run %s could not be moved; its lease will run out", run_id)
