"""Send a compiled statement straight to the driver.

Django's cursors look at each statement anew: they exchange its placeholders, on PostgreSQL they
write its values into it, so the server has to plan it each time. What is compiled once is sent as
it is, and on PostgreSQL prepared by the server (OPTIONS "prepare_threshold").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.types.numeric import Int8Dumper

STATEMENTS = 500  # whose text is kept for SQLite; there are some dozens


def send(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> Any:
    """Send a statement with %s in the places of `params`; return the driver's cursor.

    Errors are Django's, and what watches statements (execute_wrapper, the debug cursor) sees it.
    """
    if database.force_debug_cursor:
        cursor: Any = database.cursor()
        cursor.execute(sql, params)
        return cursor
    database.ensure_connection()
    database.validate_no_broken_transaction()
    execute: Callable[..., Any] = _EXECUTE[database.vendor]
    if database.execute_wrappers:
        context = {"connection": database}
        for watching in reversed(database.execute_wrappers):
            execute = partial(_watched, watching, execute, context)
    with database.wrap_database_errors:
        return execute(database, sql, params)


def _watched(
    watching: Callable[..., Any],
    execute: Callable[..., Any],
    context: dict[str, Any],
    database: BaseDatabaseWrapper,
    sql: str,
    params: Sequence[Any],
) -> Any:
    """Let a wrapper of Django's contract see a statement."""

    def inner(sql: str, params: Sequence[Any], many: bool, context: dict[str, Any]) -> Any:
        return execute(database, sql, params)

    return watching(inner, sql, params, False, context)


def _on_sqlite(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> Any:
    return database.connection.execute(_with_marks(sql), params)


@lru_cache(STATEMENTS)
def _with_marks(sql: str) -> str:
    """Return a statement with the driver's own placeholders."""
    return sql.replace("%%", "\0").replace("%s", "?").replace("\0", "%")


def _on_postgresql(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> Any:
    return psycopg.Cursor(database.connection).execute(sql, params)


def on_new_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Have PostgreSQL take numbers in one width: else each size would be another statement."""
    if connection.vendor == "postgresql":
        connection.connection.adapters.register_dumper(int, Int8Dumper)


_EXECUTE = {"sqlite": _on_sqlite, "postgresql": _on_postgresql}
