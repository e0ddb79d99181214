"""Run a worker: drive runs, and sweep."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from agents.audit.verify import verify_all, verify_until
from agents.engine.workers.worker import work
from agents.notifications.outbox import deliver_all, deliver_until
from agents.publishing.trials import try_all, try_until


async def _until(stop: asyncio.Event) -> None:
    """Send notifications, verify the record and try drafts at the same time."""
    await asyncio.gather(deliver_until(stop), verify_until(stop), try_until(stop))


async def _all(stop: asyncio.Event) -> None:
    await asyncio.gather(deliver_all(stop), verify_all(stop), try_all(stop))


class Command(BaseCommand):
    help = "Drive runs until told to stop (Ctrl-C, SIGTERM)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="end when no run can continue")

    def handle(self, *args: Any, once: bool, **options: Any) -> None:
        import agents.llm.call  # noqa: F401 - before the first run, whose time counts

        gc.collect()
        gc.freeze()  # keep imported objects out of collections, which would take 90 ms
        runner = asyncio.Runner()
        if runner.run(work(once=once, beside=_all if once else _until)):
            runner.close()
            return
        # Runner and interpreter would wait for tasks and threads that hang. A call's intent is on
        # record: the worker that takes over the run looks up the outcome by key.
        logging.shutdown()
        os._exit(0)
