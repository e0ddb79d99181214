"""Send compiled statements straight to the driver, and take named locks.

Django's cursors process each statement again: they replace its placeholders and, on PostgreSQL,
write its values into it, so that the server plans it each time. A compiled statement is sent as it
is and, on PostgreSQL, prepared by the server (OPTIONS "prepare_threshold").
"""

from asyncio import _get_running_loop
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from threading import local
from typing import Any, Generic, NamedTuple, NoReturn, ParamSpec, TypeAlias, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.abc import PQGen
from psycopg.generators import send as send_queued
from psycopg.types.numeric import Int8Dumper

# Kept of each connection, and so much text for SQLite. There are some dozens, but an INSERT is
# another one with each number of rows, and on PostgreSQL with each set of columns that are null.
STATEMENTS = 1000

P = ParamSpec("P")
T = TypeVar("T")
Execute: TypeAlias = Callable[[BaseDatabaseWrapper, str, Sequence[Any]], Any]


class Pending(Generic[T]):
    """A pending answer. Within `pipeline`, call `get` after the block."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read

    def get(self) -> T:
        """Return the answer. Raises RuntimeError if it cannot have arrived yet."""
        return self._read()


class _Here(local):
    """Whether this thread is within `pipeline`, and its connection."""

    is_open = False
    database: BaseDatabaseWrapper | None = None


_here = _Here()


def this_connection() -> BaseDatabaseWrapper:
    """Return this thread's connection; a run asks for it two hundred times.

    Where a loop runs Django keeps one for each context, and a transaction of its is on that.
    """
    if _get_running_loop() is not None:
        return connections[DEFAULT_DB_ALIAS]
    if _here.database is None:
        _here.database = connections[DEFAULT_DB_ALIAS]
    return _here.database


def send(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> Any:
    """Send a statement with %s for each of `params`; return the driver's cursor.

    Errors are Django's, and its execute wrappers and debug cursor see the statement. Within
    `pipeline` the cursor has its answer only afterwards: see `require_answer`.
    """
    if not _here.is_open:
        if database.force_debug_cursor:
            cursor: Any = database.cursor()
            cursor.execute(sql, params)
            return cursor
        _open(database)
    database.validate_no_broken_transaction()
    execute: Execute = _EXECUTE[database.vendor]
    for watching in reversed(database.execute_wrappers):
        if watching is not _refuse:
            execute = partial(_watch, watching, execute)
    try:
        return execute(database, sql, params)
    except Exception as error:
        _raise_as_django_does(database, error)


def _raise_as_django_does(database: BaseDatabaseWrapper, error: Exception) -> NoReturn:
    """Raise an error, the driver's as Django's."""
    try:
        with database.wrap_database_errors:
            raise error
    except DatabaseError:
        _forget_plans(database)
        raise


def _forget_plans(database: BaseDatabaseWrapper) -> None:
    """Close a connection after an error outside a transaction, because its plans may be wrong.

    A table may have changed, or psycopg may consider statements prepared that the server skipped
    after the error. A ROLLBACK would clear its plans; without one the statement would always fail.
    """
    if database.vendor == "postgresql" and not (_here.is_open or database.in_atomic_block):
        database.close()


def _open(database: BaseDatabaseWrapper) -> None:
    """Prepare a connection as Django does before each cursor, as a kept one may be dead."""
    if database.connection is None or database.health_check_enabled:  # type: ignore[attr-defined]
        database.close_if_health_check_failed()
        database.ensure_connection()


def require_answer(cursor: Any) -> Any:
    """Return a cursor with its answer. Raises RuntimeError if it cannot have arrived yet."""
    if _here.is_open:
        raise RuntimeError("what is sent together is answered when the block has ended")
    return cursor


def pipeline() -> AbstractContextManager[None]:
    """Send the block's statements together: on PostgreSQL in one round trip.

    Errors are raised at the end of the block, and answers are available after it. Only compiled
    statements may take part: a plain query would mistake a missing answer for an empty one and is
    refused. SQLite answers at once and is as strict, so that its tests count for PostgreSQL.
    """
    database = this_connection()
    if database.force_debug_cursor or _here.is_open:
        return nullcontext()
    return _pipeline(database)


def _pipeline(database: BaseDatabaseWrapper) -> AbstractContextManager[None]:
    return _in_one_go(database) if database.vendor == "postgresql" else _Together(database)


class _Together:
    """A block within which only compiled statements are sent."""

    def __init__(self, database: BaseDatabaseWrapper) -> None:
        self._database = database

    def __enter__(self) -> None:
        _open(self._database)
        self._database.execute_wrappers.append(_refuse)
        _here.is_open = True

    def __exit__(self, *error: object) -> None:
        _here.is_open = False
        self._database.execute_wrappers.remove(_refuse)


class _Pipeline(psycopg.Pipeline):
    """Psycopg's, but sent at once when its block ends, with the BEGIN and without a Flush.

    Psycopg would wait for the BEGIN, and write to the socket and look for answers with each
    statement: ten round trips and three hundred calls of the system a run.

    A last Sync has the server answer by itself. PostgreSQL ends a transaction that stands idle,
    with its locks, by a clock that starts with its answer to a Sync and is stopped by any message:
    after a Flush it would never end it.
    """

    def _communicate_gen(self) -> PQGen[None]:
        yield from ()

    def _sync_gen(self) -> PQGen[None]:
        self._queue()  # a BEGIN: the connection has to know that a transaction is under way
        yield from ()

    def _exit_gen(self) -> PQGen[None]:
        if not self.result_queue:  # nothing was asked for
            return
        self._enqueue_sync()
        self._queue()
        yield from send_queued(self.pgconn)
        yield from self._fetch_gen(flush=False)

    def _queue(self) -> None:
        """Hand what was asked for to libpq, which keeps it until it is sent."""
        while self.command_queue:
            self.command_queue.popleft()()


@contextmanager
def _in_one_go(database: BaseDatabaseWrapper) -> Iterator[None]:
    try:
        with _Together(database), database.wrap_database_errors:
            connection = database.connection
            connection._pipeline = _Pipeline(connection)  # which `pipeline` then enters
            with connection.pipeline():
                yield
    except DatabaseError:
        _forget_plans(database)
        raise


def fetch_now(ask: Callable[P, Pending[T]], *args: P.args, **given: P.kwargs) -> T:
    """Return the answer to what `ask` sends, in one round trip with a BEGIN before it."""
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
    """Show a statement to one of Django's execute wrappers."""

    def inner(sql: str, params: Sequence[Any], many: bool, context: dict[str, Any]) -> Any:
        return execute(database, sql, params)

    return watching(inner, sql, params, False, {"connection": database})


class _Fetched(NamedTuple):
    """SQLite's answer, read at once: an open cursor would see later changes."""

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

    Psycopg would convert them, with more than fifty on each call, which takes longer than sending
    the statement.
    """
    first, *others = sql.replace("%%", "\0").split("%s")
    numbered = (f"${number}{text}" for number, text in enumerate(others, 1))
    return "".join([first, *numbered]).replace("\0", "%").encode()


def on_new_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Send integers to PostgreSQL in one width: each size would prepare another statement."""
    if connection.vendor == "postgresql":
        connection.connection.adapters.register_dumper(int, Int8Dumper)
        connection.connection.prepared_max = STATEMENTS


_EXECUTE: dict[str, Execute] = {"sqlite": _on_sqlite, "postgresql": _on_postgresql}


# Named locks until the transaction ends, for things without a row. Only PostgreSQL has them and
# queues waiters; SQLite has one writer.


def send_lock(name: str, *, shared: bool = False) -> None:
    """Send for a lock, in an open pipeline if any. Many may share it, or one holds it alone."""
    database = this_connection()
    if database.vendor == "postgresql":
        send(database, _SHARED if shared else _ALONE, [name])


def take_lock(name: str) -> None:
    """Take a lock alone; wait even for a process that hangs while it holds the lock.

    PostgreSQL ends such a transaction after ten idle seconds
    (`idle_in_transaction_session_timeout`), which is longer than all other waits for a lock.
    """
    database = this_connection()
    if database.vendor == "postgresql":
        with database.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '14s'")
    send_lock(name)


def is_of_a_lock(error: BaseException) -> bool:
    """Tell whether a database error means that a needed lock was held for too long."""
    state = getattr(error.__cause__, "sqlstate", "")
    name = getattr(error.__cause__, "sqlite_errorname", "")
    return state == "55P03" or name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_SHARED = "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))"
