"""Can the database be worked on: is it as new as this program, and does it take writes?"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.migrations.loader import MigrationLoader

WRITE_HOLDS = 5.0  # seconds for which one write answers for all who ask

_written_at: dict[str, float] = {}  # by alias, of this process
_on_disk: dict[str, Any] = {}


class _Loader(MigrationLoader):
    """Knows the migrations that this process began with: by now a newer release may be in place."""

    def load_disk(self) -> None:
        if not _on_disk:
            super().load_disk()
            names = ("disk_migrations", "migrated_apps", "unmigrated_apps")
            _on_disk.update({name: getattr(self, name) for name in names})
        vars(self).update(_on_disk)


def pending_migrations() -> int:
    """Return how many migrations the database lacks. Raises DatabaseError."""
    loader = _Loader(connection)
    return len(set(loader.graph.nodes) - set(loader.applied_migrations))


def database_time() -> datetime:
    """Return what time it is by the clock that all workers share: SQLite's is that of its host."""
    if connection.vendor == "sqlite":
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone()
    return now


def prove_writable() -> None:
    """Commit a write that says nothing, unless one was committed lately. Raises DatabaseError.

    Only a commit proves it: a full disk is met where the log is written. SQLite writes nothing
    where a row stays as it is, so there a number in the file's head goes up that nobody reads.
    """
    now = time.monotonic()
    if now - _written_at.get(connection.alias, -WRITE_HOLDS) < WRITE_HOLDS:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            [(version,)] = cursor.execute("PRAGMA user_version").fetchall()
            cursor.execute(f"PRAGMA user_version = {(version + 1) % 2**31}")
        else:  # a row that nobody locks
            cursor.execute(
                "UPDATE django_migrations SET name = name "
                "WHERE id = (SELECT max(id) FROM django_migrations)"
            )
    _written_at[connection.alias] = now
