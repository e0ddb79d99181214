"""Keep the record append-only, and what has ended as it ended, in the database itself.

Triggers refuse to change or delete an event or a head, to move a run that has ended and to decide
what was answered once more, also outside this program. To forget a person they let pass exactly
this: the text beside an event, and what a run that has ended quotes, become empty once. A migration
may rebuild a table, which SQLite refuses while a trigger names it: so `manage.py migrate` lifts all
of them first and makes them again, as this version words them. A check says which are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        ("state", "decided_by_id", "decided_from", "decided_at", "granted_minor", "step_id"),
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


@dataclass(frozen=True)
class _Trigger:
    """A trigger as this version makes it."""

    table: str
    name: str
    statement: str
    kind: int = 0  # PostgreSQL's tgtype: the sum of _ROW, _BEFORE and the verbs

    @property
    def body(self) -> str:
        """Return what tells it from another of its name: on PostgreSQL its function's text."""
        body = _POSTGRES_FUNCTION if self.kind and "$$" not in self.statement else self.statement
        return body.split("$$")[1] if self.kind else body.strip()


_ROW, _BEFORE = 1, 2
_VERBS = {"insert": 4, "delete": 8, "update": 16, "truncate": 32}


def protect(connection: BaseDatabaseWrapper) -> None:
    """Make the triggers, in place of what has their names."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        _lift(connection, cursor)
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRES_FUNCTION)
        for trigger in _triggers(connection):
            cursor.execute(trigger.statement)


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


def faults(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """Return the triggers that are not as this version makes them, each with what is wrong.

    One of a table that is not there is not missed. One that is not ours might do anything.
    """
    wanted = {trigger.name: trigger for trigger in _triggers(connection)}
    with connection.cursor() as cursor:
        found = {row[0]: row for row in _found(connection, cursor)}
    wrong = {name: "it is missing" for name in wanted if name not in found}
    for name, (_, table, body, kind, is_on) in found.items():
        mine = wanted.get(name)
        if mine is None:
            wrong[name] = "it is none of ours"
        elif (mine.table, mine.body, mine.kind) != (table, body if kind else body.strip(), kind):
            wrong[name] = "it is not as it was made"
        elif not is_on:
            wrong[name] = "it is switched off"
    return wrong


def _found(
    connection: BaseDatabaseWrapper, cursor: CursorWrapper
) -> list[tuple[str, str, str, int, bool]]:
    """Return what acts on the app's tables: name, table, text, kind, and whether it is on."""
    cursor.execute(_SQLITE_CATALOGUE if connection.vendor == "sqlite" else _POSTGRES_CATALOGUE)
    return [row for row in cursor.fetchall() if row[1].startswith("agents_")]


_SQLITE_CATALOGUE = "SELECT name, tbl_name, sql, 0, 1 FROM sqlite_master WHERE type = 'trigger'"
# A condition, columns or arguments of its own make another kind; a rule is none of ours.
_POSTGRES_CATALOGUE = """
SELECT tgname, relname, prosrc,
  CASE WHEN tgqual IS NULL AND tgattr::text = '' AND tgnargs = 0
    AND lanname = 'plpgsql' AND proconfig IS NULL THEN tgtype::int ELSE -1 END,
  tgenabled IN ('O', 'A')
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid
  JOIN pg_language ON pg_language.oid = prolang
WHERE NOT tgisinternal AND pg_table_is_visible(tgrelid)
UNION ALL
SELECT 'rule ' || rulename, relname, '', -1, true
FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class
WHERE relkind = 'r' AND pg_table_is_visible(ev_class)
"""


def _triggers(connection: BaseDatabaseWrapper) -> list[_Trigger]:
    """Return every trigger that should be there."""
    tables, is_sqlite = connection.introspection.table_names(), connection.vendor == "sqlite"
    found = []
    for table, verb in _refused(tables, is_sqlite):
        each = "STATEMENT" if verb == "truncate" else "ROW"
        statement = (_SQLITE if is_sqlite else _POSTGRES).format(table=table, verb=verb, each=each)
        kind = 0 if is_sqlite else _BEFORE + _VERBS[verb] + _ROW * (each == "ROW")
        found.append(_Trigger(table, f"{table}_no_{verb}", statement, kind))
    if EVENTS in tables and not is_sqlite:
        found.append(_Trigger(EVENTS, "agents_event_wake", _POSTGRES_WAKE, _VERBS["insert"]))
    for table, over, columns, once in _OVER:
        if table not in tables:
            continue
        changed = _changed(columns, once, "IS NOT" if is_sqlite else "IS DISTINCT FROM")
        template = _SQLITE_OVER if is_sqlite else _POSTGRES_OVER
        statement = template.format(table=table, over=over, changed=changed)
        kind = 0 if is_sqlite else _BEFORE + _ROW + _VERBS["update"]
        found.append(_Trigger(table, f"{table}_stays", statement, kind))
    return found


def _changed(columns: Sequence[str], once: Mapping[str, str], is_not: str) -> str:
    """Return the condition under which a row that is over would become another."""
    differs = {name: f"NEW.{name} {is_not} OLD.{name}" for name in (*columns, *once)}
    wrong = [differs[name] for name in columns]
    wrong += [f"({differs[name]} AND NOT ({may}))" for name, may in once.items()]
    return " OR ".join(wrong)


def _refused(tables: Sequence[str], is_sqlite: bool) -> list[tuple[str, str]]:
    """Return the tables that are there, each with every verb that is refused on it."""
    verbs = ["update", "delete"] + ["truncate"] * (not is_sqlite)
    return [
        (table, verb)
        for table in TABLES
        for verb in verbs
        if table in tables and (table, verb) != (TEXTS, "update")  # which may be emptied: see _OVER
    ]


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
            wrong = faults(connections[alias])
        except DatabaseError:
            continue  # no database, no record
        if wrong:
            each = "; ".join(f"{name}: {why}" for name, why in wrong.items())
            said.append(
                Error(
                    f"The record could be changed by triggers that are not as they were: {each}.",
                    hint="Run manage.py migrate: it makes them again. Then run verify_audit.",
                    id="agents.E001",
                )
            )
    return said
