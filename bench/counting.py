"""Count what a block asks this process's database for, in all of its threads."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import Lock, local
from typing import Any
from unittest import mock

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from agents.db import driver


@dataclass
class Asked:
    """What was asked for so far; the begin of a transaction does not count."""

    statements: int = 0
    commits: int = 0  # a statement that writes outside a transaction is one, too
    # What is sent together makes one, with the begin before it; a commit is none.
    trips: int = 0


class _Here(local):
    """Whether this thread has yet to send the first of what it sends together."""

    is_first = False


@contextmanager
def count_statements() -> Iterator[Asked]:
    """Count the statements of a block, by whichever way they reach the driver."""
    asked, lock, here = Asked(), Lock(), _Here()
    commit, execute = BaseDatabaseWrapper._commit, CursorWrapper._execute  # type: ignore[attr-defined]
    send_together = driver._pipeline

    def note(database: BaseDatabaseWrapper, sql: Any) -> None:
        word = str(sql).partition(" ")[0]
        if word == "BEGIN":
            return
        with lock:
            asked.statements += 1
            asked.trips += here.is_first or not driver._here.is_open
            here.is_first = False
            asked.commits += not (database.in_atomic_block or word == "SELECT")

    def by_driver(send: driver.Execute) -> driver.Execute:
        def count(database: BaseDatabaseWrapper, sql: str, params: Any) -> Any:
            note(database, sql)
            return send(database, sql, params)

        return count

    def by_django(cursor: CursorWrapper, sql: Any, params: Any, *rest: Any) -> Any:
        note(cursor.db, sql)
        return execute(cursor, sql, params, *rest)

    def counted_pipeline(database: BaseDatabaseWrapper) -> AbstractContextManager[None]:
        here.is_first = True
        return send_together(database)

    def counted_commit(database: BaseDatabaseWrapper) -> Any:
        with lock:
            asked.commits += 1
        return commit(database)

    senders: dict[str, Callable[..., Any]] = {
        vendor: by_driver(send) for vendor, send in driver._EXECUTE.items()
    }
    with (
        mock.patch.dict(driver._EXECUTE, senders),
        mock.patch.object(driver, "_pipeline", counted_pipeline),
        mock.patch.object(CursorWrapper, "_execute", by_django),
        mock.patch.object(BaseDatabaseWrapper, "_commit", counted_commit),
    ):
        yield asked
