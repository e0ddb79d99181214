"""Keep the record append-only in the database itself, and check that it is.

Triggers refuse to change or delete an event, also outside this program. A migration that
rebuilds the table on SQLite drops them without a word: so they are made again after every
migration, and a system check says when they are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import DatabaseError

TABLE = "agents_event"
CHANNEL = "opsconsole_events"  # what PostgreSQL's LISTEN hears at each commit that adds events
NAMES = ("agents_event_no_update", "agents_event_no_delete")

_SQLITE = """
CREATE TRIGGER IF NOT EXISTS agents_event_no_{verb} BEFORE {verb} ON agents_event
BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END
"""
_POSTGRES_FUNCTION = """
CREATE OR REPLACE FUNCTION agents_event_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the record is append-only'; END $$
"""
_POSTGRES = """
CREATE OR REPLACE TRIGGER agents_event_no_{verb} BEFORE {verb} ON agents_event
FOR EACH {each} EXECUTE FUNCTION agents_event_append_only()
"""
# It wakes who watches and carries nothing: data always comes from the table.
_POSTGRES_WAKE = f"""
CREATE OR REPLACE FUNCTION agents_event_wake() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('{CHANNEL}', ''); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER agents_event_wake AFTER INSERT ON agents_event
FOR EACH STATEMENT EXECUTE FUNCTION agents_event_wake()
"""


def protect(connection: BaseDatabaseWrapper) -> None:
    """Make the triggers that are missing."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for verb in ("update", "delete"):
                cursor.execute(_SQLITE.format(verb=verb))
            return
        cursor.execute(_POSTGRES_FUNCTION)
        for verb, each in (("update", "ROW"), ("delete", "ROW"), ("truncate", "STATEMENT")):
            cursor.execute(_POSTGRES.format(verb=verb, each=each))
        cursor.execute(_POSTGRES_WAKE)


def unprotect(connection: BaseDatabaseWrapper) -> None:
    """Drop the triggers; for tests, which empty the tables between them."""
    with connection.cursor() as cursor:
        for verb in ("update", "delete", "truncate"):
            name = f"agents_event_no_{verb}"
            table = f" ON {TABLE}" if connection.vendor == "postgresql" else ""
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{table}")


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the triggers that are not there; none where the table is not there either."""
    catalogue = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if connection.vendor == "sqlite"
        else "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    )
    if TABLE not in connection.introspection.table_names():
        return []
    with connection.cursor() as cursor:
        cursor.execute(catalogue)
        found = {row[0] for row in cursor.fetchall()}
    return [name for name in NAMES if name not in found]


def after_migrate(sender: AppConfig, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Make the triggers again, when the table has come into being or was rebuilt."""
    connection = connections[using]
    if TABLE in connection.introspection.table_names():
        protect(connection)


def check_record(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Say when the record could be changed: `check --database default` and `migrate` ask."""
    said: list[CheckMessage] = []
    for alias in databases or []:
        try:
            names = missing(connections[alias])
        except DatabaseError:
            continue  # no database, no record
        if names:
            said.append(
                Error(
                    f"The record is not append-only: {', '.join(names)} is missing.",
                    hint="Run manage.py migrate; it makes the triggers again.",
                    id="agents.E001",
                )
            )
    return said
