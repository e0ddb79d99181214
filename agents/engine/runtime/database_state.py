"""Check that the database fits this program and accepts writes."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

OLDEST = "0.2.0"  # version whose databases this program upgrades
WRITE_HOLDS = 5.0  # seconds for which one successful write counts

_written_at: dict[str, float] = {}  # by alias, of this process
_on_disk: dict[str, Any] = {}


class _Loader(MigrationLoader):
    """Keeps the migrations this process started with: a newer release may be installed by now."""

    def load_disk(self) -> None:
        if not _on_disk:
            super().load_disk()
            names = ("disk_migrations", "migrated_apps", "unmigrated_apps")
            _on_disk.update({name: getattr(self, name) for name in names})
        vars(self).update(_on_disk)


class DatabaseTooOld(Exception):
    """The database is of a version before OLDEST, or was left by a `migrate` that was killed."""

    def __init__(self) -> None:
        super().__init__(
            f"The database is of a version before {OLDEST}, which this program cannot upgrade: "
            f"install {OLDEST} and run its manage.py migrate first, as docs/upgrading.md says."
        )


def check_not_too_old() -> None:
    """Raise DatabaseTooOld if the database has only some of the migrations that one replaces.

    Django would say that there is nothing to apply, or start over on the old tables. Where the
    replaced migrations are still in place it goes on with them. Raises DatabaseError.
    """
    replacing = _Loader(None)
    applied = MigrationRecorder(connection).applied_migrations()
    for migration in replacing.replacements.values():
        missing = set(migration.replaces) - applied.keys()
        is_partial = 0 < len(missing) < len(migration.replaces)
        if is_partial and not missing <= replacing.disk_migrations.keys():
            raise DatabaseTooOld


def pending_migrations() -> int:
    """Return the number of migrations the database lacks. Raises DatabaseError, DatabaseTooOld."""
    check_not_too_old()
    loader = _Loader(connection)
    return len(set(loader.graph.nodes) - set(loader.applied_migrations))


def database_time() -> datetime:
    """Return the database's time, which all workers share; SQLite's is that of its host."""
    if connection.vendor == "sqlite":
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone()
    return now


def prove_writable() -> None:
    """Commit a meaningless write, unless one was committed lately. Raises DatabaseError.

    Only a commit proves it, as a full disk shows when the log is written. SQLite skips a write that
    changes nothing, so there an unused number in the file's header is raised.
    """
    now = time.monotonic()
    if now - _written_at.get(connection.alias, -WRITE_HOLDS) < WRITE_HOLDS:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            [(version,)] = cursor.execute("PRAGMA user_version").fetchall()
            cursor.execute(f"PRAGMA user_version = {(version + 1) % 2**31}")
        else:  # a row that no other code locks
            cursor.execute(
                "UPDATE django_migrations SET name = name "
                "WHERE id = (SELECT max(id) FROM django_migrations)"
            )
    _written_at[connection.alias] = now
