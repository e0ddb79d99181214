"""How the database is opened; the options are measured, not tuned by taste."""

from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from django.db.utils import DatabaseError

SQLITE, POSTGRESQL = "opsconsole.sqlite", "django.db.backends.postgresql"

# IMMEDIATE takes the write lock at the start: with DEFERRED, several processes get "database is
# locked" at once, whatever the timeout. Within a process transactions queue (opsconsole/sqlite),
# so one that finds the file busy waits only for other processes. FULL, because NORMAL may
# lose a committed intent when the power goes. Without recursive_triggers INSERT OR REPLACE
# would pass append-only triggers. Without secure_delete, what is erased stays in the file.
# A commit writes whole pages to the log, of which it changes a row each: pages of half the usual
# size halve the log (docs/benchmarks.md). A file that exists keeps its own size.
SQLITE_OPTIONS = {
    "timeout": 30,
    "transaction_mode": "IMMEDIATE",
    "init_command": (
        "PRAGMA page_size=2048; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
        "PRAGMA foreign_keys=ON; PRAGMA recursive_triggers=ON; PRAGMA secure_delete=ON;"
    ),
}

# Milliseconds. A transaction here is short: one that stands idle for ten seconds is a fault.
POSTGRESQL_LIMITS = {
    "lock_timeout": 5_000,
    "statement_timeout": 15_000,
    "idle_in_transaction_session_timeout": 10_000,
}

# Uses of a statement after which PostgreSQL keeps its plan (agents/db/driver.py).
PREPARE_THRESHOLD = 2


def database_settings(url: str, *, base: Path, default: Path, keep: int) -> dict[str, Any]:
    """Return Django's settings for a DATABASE_URL; "" is the SQLite file `default`.

    `keep` is the maximum age in seconds of a connection to PostgreSQL.
    """
    if not url:
        return _sqlite(default)
    try:
        parsed: dict[str, Any] = dict(dj_database_url.parse(url))
    except ValueError:
        raise _refusal_of() from None  # the URL may contain the password
    if parsed["ENGINE"] == "django.db.backends.sqlite3":
        name = str(parsed["NAME"])
        if not name or ":memory:" in name:
            raise ImproperlyConfigured(
                "DATABASE_URL names an SQLite database in memory, which web and worker cannot "
                "share: give a file, sqlite:///var/opsconsole.sqlite3, or PostgreSQL."
            )
        return _sqlite(base / name)
    if parsed["ENGINE"] != POSTGRESQL or not parsed["NAME"]:
        raise _refusal_of()
    return _postgresql(parsed, keep=keep)


def must_be_private(database: dict[str, Any]) -> None:
    """Refuse a file that others on this machine can read, as its sessions allow signing in."""
    path = Path(database["NAME"])
    if database["ENGINE"] != SQLITE or not path.exists():
        return
    reachable = path.parent.stat().st_mode & 0o011
    if reachable and path.stat().st_mode & 0o077:
        raise ImproperlyConfigured(
            f"The database {path.name} can be read by others: chmod 700 its directory, or "
            f"chmod 600 {path.name}*."
        )


def is_schema_error(error: BaseException) -> bool:
    """Tell whether a statement named a missing table or column.

    Then the tables are those of another release: an upgrade is under way, or a process was not
    restarted after one.
    """
    state = getattr(error.__cause__, "sqlstate", None) or getattr(error, "sqlstate", None)
    words = str(error)
    is_sqlite = words.startswith(("no such table", "no such column")) or "has no column" in words
    return isinstance(error, DatabaseError) and (state in ("42P01", "42703") or is_sqlite)


def is_read_only(error: BaseException) -> bool:
    """Tell whether an error is the driver's own of a database that takes no writes.

    It takes none from anybody (a standby), or none from this role (after a restore, say).
    """
    is_sqlite = str(error).startswith("attempt to write a readonly database")
    return is_sqlite or getattr(error, "sqlstate", None) in ("25006", "42501")


def _sqlite(path: Path) -> dict[str, Any]:
    return {"ENGINE": SQLITE, "NAME": str(path), "OPTIONS": dict(SQLITE_OPTIONS)}


def _postgresql(parsed: dict[str, Any], *, keep: int) -> dict[str, Any]:
    options = dict(parsed.get("OPTIONS") or {})
    limits = " ".join(f"-c {name}={value}" for name, value in POSTGRESQL_LIMITS.items())
    # What the URL says comes last, so it wins.
    options["options"] = f"{limits} {options.get('options', '')}".strip()
    options.setdefault("connect_timeout", 5)
    options.setdefault("prepare_threshold", PREPARE_THRESHOLD)
    return {**parsed, "OPTIONS": options, "CONN_MAX_AGE": keep, "CONN_HEALTH_CHECKS": True}


def _refusal_of() -> ImproperlyConfigured:
    return ImproperlyConfigured(
        "DATABASE_URL is not a database that opsconsole can use (its value is not shown): give "
        "postgresql://user:password@host:5432/name or sqlite:///path/to/file.sqlite3, with / # ? @ "
        "of a password as %2F %23 %3F %40."
    )
