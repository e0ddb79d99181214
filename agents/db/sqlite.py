"""What SQLite does not do by itself: keep statistics and empty its log."""

import logging

from django.db import connection

log = logging.getLogger(__name__)

# Rows read of each index, as https://sqlite.org/lang_analyze.html advises: some milliseconds at any
# size. Without statistics, finding the audit log's entries by time took ten times as long.
ROWS = 1000


def keep_statistics() -> None:
    """Update the statistics by which SQLite chooses an index; PostgreSQL does so by itself."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA analysis_limit = {ROWS}")
            cursor.execute("ANALYZE")


def empty_log() -> None:
    """Move committed pages into SQLite's file and truncate its log (WAL).

    The log still has pages from before an erasure. A reader is waited for as long as by any
    statement; if one reads on, a warning is logged.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        is_busy = cursor.fetchone()[0]
    if is_busy:
        log.warning("The database's -wal file could not be emptied: somebody reads from it")
