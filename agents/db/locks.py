"""Named locks that last until the transaction ends: of what need not have a row.

Only on PostgreSQL, which queues those who wait; SQLite has one writer.
"""

from __future__ import annotations

from agents.db.driver import send, this_connection


def send_lock(name: str, *, shared: bool = False) -> None:
    """Send for a lock, in an open pipeline if any. Many may share it, or one has it alone."""
    database = this_connection()
    if database.vendor == "postgresql":
        send(database, _SHARED if shared else _ALONE, [name])


_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_SHARED = "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))"
