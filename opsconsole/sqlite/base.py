"""Django's SQLite with a queue of writers in each process.

SQLite has one writer at a time. A waiting one sleeps and retries at ever longer intervals, so that
of fifty threads some give up with "database is locked" while others overtake them. Here a process's
transactions queue for their turn; only the first of the queue competes with other processes, of
which there are few.
"""

from collections import deque
from threading import Lock
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base

PATIENCE = 60.0  # seconds in the queue


class Line:
    """A lock that waiters get in order of arrival."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._is_taken = False
        self._waiting: deque[Lock] = deque()

    def acquire(self, patience: float) -> bool:
        """Wait for the turn. Return False if it did not come within `patience` seconds."""
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return True
            turn = Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=patience):
            return True
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
        return True  # acquired at the last moment

    def release(self) -> None:
        """Pass the lock to the first waiter."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


_lines: dict[str, Line] = {}


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection whose transactions queue with those of its process."""

    transaction_mode: str | None
    _has_turn = False

    def _start_transaction_under_autocommit(self) -> None:
        line = _lines.setdefault(str(self.settings_dict["NAME"]), Line())
        if not line.acquire(PATIENCE):
            raise OperationalError("database is locked: its turn did not come")
        self._has_turn = True
        try:
            with self.wrap_database_errors:  # a cursor of Django's takes longer than the BEGIN
                self.connection.execute(f"BEGIN {self.transaction_mode or ''}")
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        if self._has_turn:
            self._has_turn = False
            _lines[str(self.settings_dict["NAME"])].release()

    def _commit(self) -> Any:
        done = super()._commit()  # type: ignore[misc]
        self._leave()  # a failed commit leaves after its rollback
        return done

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]
        finally:
            self._leave()

    def _close(self) -> Any:
        try:
            return super()._close()  # type: ignore[misc]
        finally:
            self._leave()
