"""Empty SQLite's log (WAL), which still has pages from before an erasure."""

from __future__ import annotations

import logging

from django.db import connection

log = logging.getLogger(__name__)


def empty_log() -> None:
    """Move committed pages into SQLite's database file and truncate its log.

    Waits for readers as long as any statement; if one reads on, a warning is logged.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        is_busy = cursor.fetchone()[0]
    if is_busy:
        log.warning("The database's -wal file could not be emptied: somebody reads from it")
