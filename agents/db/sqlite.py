"""SQLite's statistics on its tables, by which it chooses an index."""

from __future__ import annotations

import logging

from django.db import connection

# Rows read of each index, as https://sqlite.org/lang_analyze.html advises: some milliseconds at any
# size. Without statistics, finding the audit log's entries by time took ten times as long.
ROWS = 1000


def keep_statistics() -> None:
    """Update SQLite's statistics; PostgreSQL does so by itself."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA analysis_limit = {ROWS}")
            cursor.execute("ANALYZE")


# Empty SQLite's log (WAL), which still has pages from before an erasure.


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
