"""Abort before the n-th database write, on any connection."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from django.db import connection
from django.db.backends.signals import connection_created

WRITES = ("INSERT", "UPDATE", "DELETE")


class Breaking:
    """Counts writes, and raises `error` instead of the `number`-th (from 1; 0 is never)."""

    def __init__(self, number: int, error: Callable[[], BaseException]) -> None:
        self.number, self.error = number, error
        self.count = 0
        self.broke_at = ""
        self._lock = Lock()

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().upper().startswith(WRITES):
            with self._lock:
                self.count += 1
                ours = self.count == self.number
            if ours:
                self.broke_at = sql[:80]
                raise self.error()
        return execute(sql, params, many, context)


_breaking: Breaking | None = None


def _execute_watched(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    if _breaking is None:
        return execute(sql, params, many, context)
    return _breaking(execute, sql, params, many, context)


def _watch(connection: Any, **_: Any) -> None:
    # A thread keeps its connection object after the connection is closed.
    if _execute_watched not in connection.execute_wrappers:
        connection.execute_wrappers.append(_execute_watched)


@contextmanager
def breaking(number: int, error: Callable[[], BaseException]) -> Iterator[Breaking]:
    """Abort the `number`-th write within the block, including those on other threads."""
    global _breaking
    connection_created.connect(_watch)
    _watch(connection)
    _breaking = Breaking(number, error)
    try:
        yield _breaking
    finally:
        _breaking = None
        connection_created.disconnect(_watch)
