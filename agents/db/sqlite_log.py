"""Empty SQLite's log (WAL): it has the pages as they were before something was erased."""

from __future__ import annotations

import logging

from django.db import connection

log = logging.getLogger(__name__)


def empty_log() -> None:
    """Write what is committed into SQLite's database file and truncate its log.

    Waits for readers as long as any statement does; where one reads on, the log says so.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        is_busy = cursor.fetchone()[0]
    if is_busy:
        log.warning("The database's -wal file could not be emptied: somebody reads from it")
