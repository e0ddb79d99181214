"""Small pools of threads for what blocks: database work, and tools that are plain functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import TypeVar

from django.db import close_old_connections, connections

T = TypeVar("T")

LONGEST_CALL = 30.0  # seconds to wait for threads that are still in a call when closing


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
        close_old_connections()  # without it a connection that was cut stays dead for ever
        return work()

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


DATABASE = Pool(4, "database")
TOOLS = Pool(16, "tool")


def close_connections(patience: float = LONGEST_CALL) -> bool:
    """Close what the pools hold open. Return False where a thread is still in a call."""
    closed = [pool.close_connections(patience) for pool in (DATABASE, TOOLS)]
    return all(closed)
