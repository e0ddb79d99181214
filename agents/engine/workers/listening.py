"""Take runs from Procrastinate's jobs: by LISTEN/NOTIFY, many at once, on any number of hosts."""

import asyncio
import logging
from contextlib import suppress
from uuid import UUID

from django.db import OperationalError
from procrastinate import App
from procrastinate.contrib.django import connector_params
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from procrastinate.psycopg_connector import PsycopgConnector
from psycopg.errors import ForeignKeyViolation, RaiseException

from agents.engine import lease
from agents.engine.runtime.database import in_database
from agents.engine.runtime.jobs import QUEUE, TASK
from agents.engine.workers import worker

log = logging.getLogger(__name__)

LATER = 1.0  # seconds between looks for jobs that fall due unannounced
CONNECTIONS = 4  # to the queue; one more listens
OPENING = 3.0  # seconds for the first connection; the pool's default is thirty
PAUSE = 1.0  # seconds before the queue is tried again


class _Jobs(JobManager):
    """The queue's jobs; those of a worker that hung are taken over."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """End a job, unless another worker has ended it."""
        try:
            await super().finish_job(job, status, delete_job)
        except ConnectorException as error:
            if not isinstance(error.__cause__, RaiseException):
                raise


class Listener:
    """Start a run for every job, and sweep."""

    def __init__(self, stop: asyncio.Event, active_runs: worker.ActiveRuns) -> None:
        self.stop = stop
        self.active_runs = active_runs
        self.turns = worker.FairShare()
        self.choosing = asyncio.Lock()  # one at a time, or two would choose the same run

    async def run(self) -> None:
        """Take jobs until told to stop, through every fault of the database."""
        sweeping = asyncio.create_task(self._sweep())
        while not self.stop.is_set():
            try:
                await self._listen()
            except Exception as error:
                # Others took it for dead, and it starts again: the hang was logged.
                if not isinstance(error.__cause__, ForeignKeyViolation):
                    log.exception("The queue cannot be reached; trying again")
            await self._wait_for_stop(PAUSE)
        await sweeping

    async def _listen(self) -> None:
        """Take jobs until told to stop or until the listening connection is lost."""
        queue = PsycopgConnector(kwargs=connector_params(), min_size=1, max_size=CONNECTIONS)
        app = App(connector=queue)
        app.job_manager = _Jobs(app.connector)
        app.task(name=TASK, queue=QUEUE)(self._take_job)
        try:
            try:
                async with asyncio.timeout(OPENING):
                    await app.open_async()
            except TimeoutError:
                raise OperationalError("the queue's connections could not be opened") from None
            await _retry_stalled(app)
            await self._take(app)
        finally:
            await app.close_async()

    async def _take(self, app: App) -> None:
        """Run Procrastinate's worker. Raises its error."""
        seconds = worker.sweep_interval()
        taking = asyncio.create_task(
            app.run_worker_async(
                queues=[QUEUE],
                concurrency=max(1, self.active_runs.room),
                delete_jobs="always",  # the record of a run is the run's own
                install_signal_handlers=False,
                shutdown_graceful_timeout=0,  # a run outlives its job, see _take_job
                fetch_job_polling_interval=LATER,
                update_heartbeat_interval=seconds,
                stalled_worker_timeout=lease.length().total_seconds(),
            )
        )
        retrying = asyncio.create_task(self._retry(app, seconds))
        stopping = asyncio.create_task(self.stop.wait())
        await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (taking, retrying, stopping):
            task.cancel()
        ended, *_ = await asyncio.gather(taking, retrying, stopping, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended

    async def _take_job(self, run_id: str) -> None:
        """Start the run of a job or, while runs wait for slots, the one whose turn it is.

        Each run has a job, so each gets a slot; a job whose run was taken starts another.
        """
        has_room = len(self.active_runs.drives) < int(worker.slots() * worker.SHARE)
        run = UUID(run_id) if has_room else await self._choose()
        # Shielded: if the queue is lost, its jobs are cancelled, but the runs go on: they have
        # their own leases.
        while run and not await asyncio.shield(self.active_runs.start(run)):
            run = await self._choose()

    async def _choose(self) -> UUID | None:
        """Return the run whose turn it is; wait while a workspace's share holds it back."""
        async with self.choosing:
            while not self.stop.is_set():
                turn = await in_database(self.turns.choose, set(self.active_runs.drives.values()))
                if turn.runs or not turn.is_held_back:
                    return next(iter(turn.runs), None)
                self.active_runs.ended.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.active_runs.ended.wait(), LATER)
        return None

    async def _retry(self, app: App, seconds: float) -> None:
        while not await self._wait_for_stop(seconds):
            try:
                await _retry_stalled(app)
            except Exception:
                log.exception("Jobs of silent workers could not be taken over")

    async def _sweep(self) -> None:
        await worker.run_sweep()
        while not await self._wait_for_stop(worker.sweep_interval()):
            await worker.run_sweep()

    async def _wait_for_stop(self, seconds: float) -> bool:
        """Wait at most `seconds`. Return whether this process was told to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)
        return self.stop.is_set()


async def _retry_stalled(app: App) -> None:
    """Queue the jobs of silent workers again."""
    manager = app.job_manager
    for job in await manager.get_stalled_jobs(
        queue=QUEUE, seconds_since_heartbeat=lease.length().total_seconds()
    ):
        await manager.retry_job(job)
