"""Named locks that last until the transaction ends: of what need not have a row.

Only on PostgreSQL, which queues those who wait; SQLite has one writer. And whether somebody did
not get a lock of either.
"""

from __future__ import annotations

from agents.db.driver import send, this_connection


def send_lock(name: str, *, shared: bool = False) -> None:
    """Send for a lock, in an open pipeline if any. Many may share it, or one has it alone."""
    database = this_connection()
    if database.vendor == "postgresql":
        send(database, _SHARED if shared else _ALONE, [name])


def take_lock(name: str) -> None:
    """Take a lock alone, and wait even for a process that holds it and stands still.

    PostgreSQL ends its transaction after ten idle seconds (`idle_in_transaction_session_timeout`),
    which is longer than anybody else waits for a lock.
    """
    database = this_connection()
    if database.vendor == "postgresql":
        with database.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '14s'")
    send_lock(name)


def is_of_a_lock(error: BaseException) -> bool:
    """Tell whether an error of the database means that others held what was needed for too long."""
    state = getattr(error.__cause__, "sqlstate", "")
    name = getattr(error.__cause__, "sqlite_errorname", "")
    return state == "55P03" or name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_SHARED = "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))"
