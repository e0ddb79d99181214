"""Small pools of threads for what blocks: database work, and tools that are plain functions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, local
from typing import TypeVar

from django.db import connections

T = TypeVar("T")

TRUSTED = 1.0  # seconds for which a connection that worked is taken to be alive
LONGEST_CALL = 30.0  # seconds to wait for threads that are still in a call when closing


class _Used(local):
    """When this thread last used its connections, by the monotonic clock."""

    at = 0.0


_used = _Used()


class Pool:
    """Threads that each keep a connection of their own."""

    def __init__(self, threads: int, name: str) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread, on a connection that is alive or not yet open."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._fresh, work)

    @staticmethod
    def _fresh(work: Callable[[], T]) -> T:
        _freshen()
        try:
            return work()
        finally:
            _used.at = time.monotonic()

    def close_connections(self, patience: float = LONGEST_CALL) -> bool:
        """Close the connection of every thread; for a process's end, and between tests.

        Return False where a thread was still in a call after `patience` seconds.
        """
        everyone = Barrier(self.threads)

        def close() -> None:
            with suppress(BrokenBarrierError):  # a call that hangs keeps its connection
                everyone.wait(patience)  # else one thread might close for two
            connections.close_all()

        closing = [self._pool.submit(close) for _ in range(self.threads)]
        _, hanging = wait(closing, timeout=2 * patience)
        return not (hanging or everyone.broken)


def _freshen() -> None:
    """Close this thread's connections where they are dead; without it they stay so for ever.

    Those that live are kept, whatever pages do with theirs: there are few threads, and opening
    a connection costs more than most of what is done on it.
    """
    is_trusted = time.monotonic() - _used.at < TRUSTED
    for connection in connections.all(initialized_only=True):
        connection.close_at = None
        if connection.errors_occurred or not is_trusted:
            connection.close_if_unusable_or_obsolete()


# SQLite has one writer at a time. Several threads of one process would not queue up for it but
# sleep and try again, unfairly: that is slower, and the unlucky give up with "database is locked".
DATABASE = Pool(1 if connections["default"].vendor == "sqlite" else 4, "database")
TOOLS = Pool(16, "tool")
# Signs of life do not stand in line behind the work of a thousand runs: leases would run out.
LEASES = Pool(1, "lease")


def close_connections(patience: float = LONGEST_CALL) -> bool:
    """Close what the pools hold open. Return False where a thread is still in a call."""
    closed = [pool.close_connections(patience) for pool in (DATABASE, TOOLS, LEASES)]
    return all(closed)
