"""What SQLite knows of its tables, by which it chooses an index."""

from __future__ import annotations

import time

from django.db import connection

HOUR = 3600.0  # seconds
# Rows read of each index, as https://sqlite.org/lang_analyze.html advises: some milliseconds at any
# size. Without them it took ten times as long to find the audit log's entries by time.
ROWS = 1000

_kept_at = -HOUR


def keep_statistics_when_due() -> None:
    """Count again once an hour of this process; PostgreSQL does so by itself."""
    global _kept_at
    if time.monotonic() - _kept_at >= HOUR:
        keep_statistics()
        _kept_at = time.monotonic()


def keep_statistics() -> None:
    """Have SQLite count anew what its indexes hold."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA analysis_limit = {ROWS}")
            cursor.execute("ANALYZE")
