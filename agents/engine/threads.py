"""Small pools of threads for what blocks: database work, and tools that are plain functions."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, local
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

T = TypeVar("T")

TRUSTED = 1.0  # seconds for which a connection that worked is taken to be alive
LONGEST_CALL = 30.0  # seconds to wait for threads that are still in a call when closing


class _Used(local):
    """When this thread last used its connections, by the monotonic clock."""

    at = 0.0


_used = _Used()
_lost_at = 0.0  # when a thread last met such an error: a server that restarts cuts everybody off


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
        global _lost_at
        _freshen()
        try:
            return work()
        except (OperationalError, InterfaceError):
            _lost_at = time.monotonic()
            raise
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
    is_trusted = time.monotonic() - _used.at < TRUSTED and _used.at > _lost_at
    for connection in connections.all(initialized_only=True):
        connection.close_at = None
        if connection.errors_occurred or not is_trusted or _has_news(connection):
            connection.close_if_unusable_or_obsolete()


def _has_news(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether PostgreSQL said something unasked: then it has most likely hung up."""
    if connection.vendor != "postgresql" or connection.connection is None:
        return False
    if connection.connection.closed:
        return True
    heard = select.poll()
    heard.register(connection.connection.fileno(), select.POLLIN)
    return bool(heard.poll(0))


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
