"""Run a worker: drive runs, and sweep."""

import asyncio
import gc
import logging
import os
from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand

from agents.audit.verify import verify_in_thread
from agents.engine.runtime.database import take_jobs
from agents.engine.workers.worker import work
from agents.notifications.outbox import deliver_all, deliver_until
from agents.publishing.trials import try_next


async def _beside(stop: asyncio.Event, *, once: bool) -> None:
    """Send notifications, verify the record and try drafts at the same time."""
    deliver = deliver_all if once else deliver_until
    jobs = take_jobs(stop, verify_in_thread, try_next, once=once)
    await asyncio.gather(deliver(stop), jobs)


class Command(BaseCommand):
    help = "Drive runs until told to stop (Ctrl-C, SIGTERM)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="end when no run can continue")

    def handle(self, *args: Any, once: bool, **options: Any) -> None:
        import agents.llm.call  # noqa: F401 - before the first run, whose time counts

        gc.collect()
        gc.freeze()  # keep imported objects out of collections, which would take 90 ms
        runner = asyncio.Runner()
        if runner.run(work(once=once, beside=partial(_beside, once=once))):
            runner.close()
            return
        # Runner and interpreter would wait for tasks and threads that hang. A call's intent is on
        # record: the worker that takes over the run looks up the outcome by key.
        logging.shutdown()
        os._exit(0)
