"""Keep the record append-only, and what has ended as it ended, in the database itself.

Triggers refuse to change or delete an event or a head, to move a run that has ended and to decide
what was answered once more, also outside this program. To forget a person they let pass exactly
this: the text beside an event, and what a run that has ended quotes, become empty once. A migration
may rebuild a table, which SQLite refuses while a trigger names it: so `manage.py migrate` lifts all
of them first and makes them again, as this version words them. A check says which are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.utils import DatabaseError

EVENTS, HEADS, TEXTS = TABLES = ("agents_event", "agents_head", "agents_eventtext")
CHANNEL = "opsconsole_events"  # what PostgreSQL's LISTEN hears at each commit that adds events

_SQLITE = """
CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END
"""
_POSTGRES_FUNCTION = """
CREATE OR REPLACE FUNCTION agents_event_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the record is append-only'; END $$
"""
_POSTGRES = """
CREATE OR REPLACE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
FOR EACH {each} EXECUTE FUNCTION agents_event_append_only()
"""
# It wakes who watches and carries nothing: data always comes from the table.
_POSTGRES_WAKE = f"""
CREATE OR REPLACE FUNCTION agents_event_wake() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('{CHANNEL}', ''); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER agents_event_wake AFTER INSERT ON agents_event
FOR EACH STATEMENT EXECUTE FUNCTION agents_event_wake()
"""
# What stays once it is over: (table, when it is over, the columns that no longer change, and those
# that may change once in a way). Other texts are not among them, because a person may have to be
# forgotten.
_ERASES = "OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL"
_OVER: tuple[tuple[str, str, tuple[str, ...], dict[str, str]], ...] = (
    (
        "agents_run",
        "OLD.ended_at IS NOT NULL",
        ("state", "ended_at", "pattern", "policy_id", "launched_by_id"),
        {
            "erased_at": "OLD.erased_at IS NULL",
            # The code stays; what it quoted goes.
            "stop_reason": f"{_ERASES} AND OLD.stop_reason LIKE NEW.stop_reason || ':%'",
        },
    ),
    (
        "agents_escalation",
        "OLD.state <> 'open'",
        ("state", "decided_by_id", "decided_at", "granted_minor", "step_id"),
        {
            "action_sha256": "NEW.action_sha256 = '' AND EXISTS (SELECT 1 FROM agents_run "
            "WHERE id = OLD.run_id AND erased_at IS NOT NULL)"
        },
    ),
    (
        TEXTS,
        "1 = 1",
        ("id", "event_id", "name"),
        dict.fromkeys(("text", "salt", "erased_at"), f"{_ERASES} AND NEW.text = ''"),
    ),
)
_SQLITE_OVER = """
CREATE TRIGGER {table}_stays BEFORE UPDATE ON {table}
WHEN {over} AND ({changed})
BEGIN SELECT RAISE(ABORT, 'what has ended stays as it is'); END
"""
# The columns are named within a function, which a later migration may still alter; a WHEN of the
# trigger's own would bind them.
_POSTGRES_OVER = """
CREATE OR REPLACE FUNCTION {table}_stays() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
IF {over} AND ({changed}) THEN
RAISE EXCEPTION 'what has ended stays as it is' USING ERRCODE = 'integrity_constraint_violation';
END IF;
RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER {table}_stays BEFORE UPDATE ON {table}
FOR EACH ROW EXECUTE FUNCTION {table}_stays()
"""


def protect(connection: BaseDatabaseWrapper) -> None:
    """Make the triggers, in place of what has their names."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        _lift(connection, cursor)
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRES_FUNCTION)
        for table, verb in _refused(connection):
            each = "STATEMENT" if verb == "truncate" else "ROW"
            statement = _SQLITE if connection.vendor == "sqlite" else _POSTGRES
            cursor.execute(statement.format(table=table, verb=verb, each=each))
        if connection.vendor == "postgresql" and EVENTS in _present(connection):
            cursor.execute(_POSTGRES_WAKE)
        for table, over, columns, once in _that_end(connection):
            is_not = "IS NOT" if connection.vendor == "sqlite" else "IS DISTINCT FROM"
            differs = {name: f"NEW.{name} {is_not} OLD.{name}" for name in (*columns, *once)}
            wrong = [differs[name] for name in columns]
            wrong += [f"({differs[name]} AND NOT ({may}))" for name, may in once.items()]
            changed = " OR ".join(wrong)
            statement = _SQLITE_OVER if connection.vendor == "sqlite" else _POSTGRES_OVER
            cursor.execute(statement.format(table=table, over=over, changed=changed))


def unprotect(connection: BaseDatabaseWrapper) -> None:
    """Drop the triggers, also another version's: migrations and tests need it."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        _lift(connection, cursor)


def _lift(connection: BaseDatabaseWrapper, cursor: CursorWrapper) -> None:
    is_sqlite = connection.vendor == "sqlite"
    cursor.execute(
        "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'"
        if is_sqlite
        else "SELECT tgname, relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
        "WHERE NOT tgisinternal AND pg_table_is_visible(tgrelid)"
    )
    for name, table in cursor.fetchall():
        if table.startswith("agents_"):
            cursor.execute(f"DROP TRIGGER {name}" + ("" if is_sqlite else f" ON {table}"))


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the triggers that are not there; none of a table that is not there either."""
    # One that is switched off is as good as gone.
    catalogue = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if connection.vendor == "sqlite"
        else "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
    )
    with connection.cursor() as cursor:
        cursor.execute(catalogue)
        found = {row[0] for row in cursor.fetchall()}
    return [name for _, name in _triggers(connection) if name not in found]


def _triggers(connection: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    """Return every trigger that should be there, by its table and its name."""
    refused = [(table, f"{table}_no_{verb}") for table, verb in _refused(connection)]
    return refused + [(table, f"{table}_stays") for table, *_ in _that_end(connection)]


def _refused(connection: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    """Return the tables that are there, each with every verb that is refused on it."""
    verbs = ["update", "delete"] + ["truncate"] * (connection.vendor == "postgresql")
    return [
        (table, verb)
        for table in _present(connection)
        for verb in verbs
        if (table, verb) != (TEXTS, "update")  # which may be emptied: see _OVER
    ]


def _that_end(
    connection: BaseDatabaseWrapper,
) -> list[tuple[str, str, tuple[str, ...], dict[str, str]]]:
    """Return the tables that are there whose rows end, with what then stays."""
    names = connection.introspection.table_names()
    return [ending for ending in _OVER if ending[0] in names]


def _present(connection: BaseDatabaseWrapper) -> list[str]:
    names = connection.introspection.table_names()
    return [table for table in TABLES if table in names]


def before_migrate(
    sender: AppConfig, using: str = DEFAULT_DB_ALIAS, plan: Sequence[object] = (), **kwargs: Any
) -> None:
    """Lift the triggers where there is a migration to apply, so that its author need not."""
    if plan:
        unprotect(connections[using])


def after_migrate(sender: AppConfig, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Make the triggers again, as this version words them."""
    protect(connections[using])


def check_record(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Say when the record could be changed: `check --database default` asks."""
    said: list[CheckMessage] = []
    for alias in databases or []:
        try:
            names = missing(connections[alias])
        except DatabaseError:
            continue  # no database, no record
        if names:
            said.append(
                Error(
                    f"The record could be changed: {', '.join(names)} is missing.",
                    hint="Run manage.py migrate; it makes the triggers again.",
                    id="agents.E001",
                )
            )
    return said
