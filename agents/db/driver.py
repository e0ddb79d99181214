"""Send compiled statements straight to the driver.

Django's cursors look at each statement anew: they exchange its placeholders, on PostgreSQL they
write its values into it, so the server has to plan it each time. What is compiled once is sent as
it is, and on PostgreSQL prepared by the server (OPTIONS "prepare_threshold").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from threading import local
from typing import Any, Generic, NamedTuple, NoReturn, ParamSpec, TypeAlias, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.types.numeric import Int8Dumper

# Kept of each connection, and so much text for SQLite. There are some dozens, but an INSERT is
# another one with each number of rows, and on PostgreSQL with each set of columns that are null.
STATEMENTS = 1000

P = ParamSpec("P")
T = TypeVar("T")
Execute: TypeAlias = Callable[[BaseDatabaseWrapper, str, Sequence[Any]], Any]


class Pending(Generic[T]):
    """An answer that was asked for. Within `pipeline`, `get` it when the block has ended."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read

    def get(self) -> T:
        """Return the answer. Raises RuntimeError where it cannot have come yet."""
        return self._read()


class _Here(local):
    """Whether this thread is within `pipeline`."""

    is_open = False


_here = _Here()


def send(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> Any:
    """Send a statement with %s in the places of `params`; return the driver's cursor.

    Errors are Django's, and what watches statements (execute_wrapper, the debug cursor) sees it.
    Within `pipeline` the cursor holds its answer only afterwards: see `require_answer`.
    """
    if database.force_debug_cursor and not _here.is_open:
        cursor: Any = database.cursor()
        cursor.execute(sql, params)
        return cursor
    if not _here.is_open:
        _open(database)
    database.validate_no_broken_transaction()
    execute: Execute = _EXECUTE[database.vendor]
    for watching in reversed(database.execute_wrappers):
        if watching is not _refuse:
            execute = partial(_watch, watching, execute)
    try:
        with database.wrap_database_errors:
            return execute(database, sql, params)
    except DatabaseError:
        _forget_plans(database)
        raise


def _forget_plans(database: BaseDatabaseWrapper) -> None:
    """Close a connection after an error outside a transaction, because its plans may be wrong.

    A table has changed since, or psycopg takes for prepared what the server skipped after the
    error. With a ROLLBACK it forgets them all; without one the statement would fail for ever.
    """
    if database.vendor == "postgresql" and not (_here.is_open or database.in_atomic_block):
        database.close()


def _open(database: BaseDatabaseWrapper) -> None:
    """Do what Django does before each cursor: a connection that was kept may be dead."""
    database.close_if_health_check_failed()
    database.ensure_connection()


def require_answer(cursor: Any) -> Any:
    """Return a cursor that holds its answer. Raises RuntimeError where it cannot have come yet."""
    if _here.is_open:
        raise RuntimeError("what is sent together is answered when the block has ended")
    return cursor


def pipeline() -> AbstractContextManager[None]:
    """Send the block's statements in one go: on PostgreSQL in one round trip, not one each.

    Their errors come where the block ends, their answers afterwards. Only compiled statements
    take part: a plain query would take "not answered yet" for an answer, so it is refused. SQLite
    answers at once and is as strict, so that what passes there is right on PostgreSQL.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.force_debug_cursor or _here.is_open:
        return nullcontext()
    return _pipeline(database)


@contextmanager
def _pipeline(database: BaseDatabaseWrapper) -> Iterator[None]:
    _open(database)
    database.execute_wrappers.append(_refuse)
    _here.is_open = True
    try:
        try:
            with database.wrap_database_errors, _in_one_go(database):
                yield
        finally:
            _here.is_open = False
            database.execute_wrappers.remove(_refuse)
    except DatabaseError:
        _forget_plans(database)
        raise


def _in_one_go(database: BaseDatabaseWrapper) -> AbstractContextManager[object]:
    is_postgresql = database.vendor == "postgresql"
    return database.connection.pipeline() if is_postgresql else nullcontext()


def fetch_now(ask: Callable[P, Pending[T]], *args: P.args, **given: P.kwargs) -> T:
    """Return the answer to what `ask` sends, in one go with the BEGIN before it."""
    with pipeline():
        answer = ask(*args, **given)
    return answer.get()


def _refuse(*args: Any) -> NoReturn:
    raise RuntimeError("only compiled statements are sent together")


def _watch(
    watching: Callable[..., Any],
    execute: Execute,
    database: BaseDatabaseWrapper,
    sql: str,
    params: Sequence[Any],
) -> Any:
    """Let a wrapper of Django's contract see a statement."""

    def inner(sql: str, params: Sequence[Any], many: bool, context: dict[str, Any]) -> Any:
        return execute(database, sql, params)

    return watching(inner, sql, params, False, {"connection": database})


class _Fetched(NamedTuple):
    """What SQLite answered. It is read at once: a cursor left open would see later changes."""

    rows: list[tuple[Any, ...]]
    rowcount: int

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows


def _on_sqlite(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> Any:
    cursor = database.connection.execute(_with_marks(sql), params)
    return _Fetched(cursor.fetchall(), cursor.rowcount)


@lru_cache(STATEMENTS)
def _with_marks(sql: str) -> str:
    """Return a statement with the driver's own placeholders."""
    return sql.replace("%%", "\0").replace("%s", "?").replace("\0", "%")


def _on_postgresql(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> Any:
    return psycopg.RawCursor(database.connection).execute(_with_numbers(sql), params)


@lru_cache(STATEMENTS)
def _with_numbers(sql: str) -> bytes:
    """Return a statement with the server's own placeholders.

    Psycopg would put them in, and with more than fifty each time anew, which takes longer than
    to send the statement.
    """
    first, *others = sql.replace("%%", "\0").split("%s")
    numbered = (f"${number}{text}" for number, text in enumerate(others, 1))
    return "".join([first, *numbered]).replace("\0", "%").encode()


def on_new_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Send PostgreSQL integers in one width: each size would prepare another statement."""
    if connection.vendor == "postgresql":
        connection.connection.adapters.register_dumper(int, Int8Dumper)
        connection.connection.prepared_max = STATEMENTS


_EXECUTE: dict[str, Execute] = {"sqlite": _on_sqlite, "postgresql": _on_postgresql}
