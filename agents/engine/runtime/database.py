"""Short database work for the event loop, in a small pool of threads, retried where needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from django.db import OperationalError

from agents.engine.runtime.threads import DATABASE_THREADS, LEASE_THREADS, T

TRIES = 3
# Serialization failure and deadlock on PostgreSQL; SQLite has only messages.
_TRANSIENT = ("40001", "40P01")


def in_database(work: Callable[..., T], *args: object, tries: int = TRIES) -> asyncio.Future[T]:
    """Run `work`, whole transactions, in a pool thread; make up to `tries` attempts."""
    return DATABASE_THREADS.run(partial(retry_transient, work, *args, tries=tries))


def in_time(work: Callable[..., T], *args: object) -> asyncio.Future[T]:
    """Run `work` like `in_database` but on separate threads, for leases, which cannot wait."""
    return LEASE_THREADS.run(partial(retry_transient, work, *args))


def retry_transient(work: Callable[..., T], *args: object, tries: int = TRIES) -> T:
    """Run `work` here, up to `tries` times after transient database errors."""
    for attempt in range(1, tries):
        try:
            return work(*args)
        except OperationalError as error:
            if not _is_transient(error):
                raise
            time.sleep(0.05 * attempt)
    return work(*args)


def _is_transient(error: OperationalError) -> bool:
    state = getattr(error.__cause__, "sqlstate", None)
    return state in _TRANSIENT or "locked" in str(error)
