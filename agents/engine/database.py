"""Database work for the event loop: short, in a small pool of threads, again when it must be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import OperationalError, close_old_connections, connection

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 4
TRIES = 3
# Serialization failure and deadlock on PostgreSQL; SQLite says it in words.
_TRANSIENT = ("40001", "40P01")

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="database")


async def in_database(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work`, whole transactions that may be repeated, in a thread of the small pool."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool, lambda: _tried(work, *args, **kwargs))


def _tried(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` on a connection that is alive; again where the database asks for it."""
    for attempt in range(1, TRIES + 1):
        close_old_connections()  # without it a connection that was cut stays dead for ever
        try:
            return work(*args, **kwargs)
        except OperationalError as error:
            if attempt == TRIES or not _is_transient(error):
                raise
            time.sleep(0.05 * attempt)
    raise AssertionError("unreachable")


def _is_transient(error: OperationalError) -> bool:
    state = getattr(error.__cause__, "sqlstate", None)
    return state in _TRANSIENT or "locked" in str(error)


def close_threads_connections() -> None:
    """Close the connections that the pool's threads hold; for tests and at a worker's end."""
    done = [_pool.submit(connection.close) for _ in range(THREADS)]
    for future in done:
        future.result()
