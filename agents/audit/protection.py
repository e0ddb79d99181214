"""Keep the record's triggers in place, and report where the schema would let it be changed.

A migration may rebuild a table, which SQLite refuses while a trigger names it, so `manage.py
migrate` drops all triggers first and creates this version's afterwards.
Dropping them and proving that they are back belong in one file.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.models import ForeignKey

from agents.db import run_words

_OURS = ("agents", "desk")  # apps whose triggers a migration drops, whoever created them

_HERE = Path(__file__).parent

_CONSTRAINT = -2  # the kind of a trigger that PostgreSQL made for a foreign key


def protect(connection: BaseDatabaseWrapper) -> None:
    """Create the triggers, replacing any of the same names.

    On PostgreSQL they always fire, even when `session_replication_role` disables others.
    """
    is_postgresql = connection.vendor == "postgresql"
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        unprotect(connection)
        if is_postgresql:
            cursor.execute(_SQL["postgresql"]["function"])
        for trigger in _triggers_of(connection):
            cursor.execute(trigger.statement)
            if is_postgresql:
                always = f"ENABLE ALWAYS TRIGGER {trigger.name}"
                cursor.execute(f"ALTER TABLE {trigger.table} {always}")
                path = _SQL["postgresql"]["path"]
                cursor.execute(path.format(function=trigger.function))


def unprotect(connection: BaseDatabaseWrapper) -> None:
    """Drop the triggers, including those of other versions, for migrations and tests."""
    is_sqlite, quoted = connection.vendor == "sqlite", connection.ops.quote_name
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        for name, table, _, kind, _ in _acting(connection, cursor):
            if _is_lifted(table) and kind != _CONSTRAINT and not name.startswith("rule "):
                on = "" if is_sqlite else f" ON {quoted(table)}"
                cursor.execute(f"DROP TRIGGER {quoted(name)}{on}")


@dataclass(frozen=True)
class _Build:
    """The parts of a database's schema that differ from this version's, each with its fault.

    An unknown trigger or rule on a table might do anything. On a company's own tables it is the
    company's responsibility: it is listed in `foreign` and is not a fault.
    """

    faults: dict[str, str]
    foreign: dict[str, str]


def inspect(connection: BaseDatabaseWrapper) -> _Build:
    """Compare the database's schema with this version's, ignoring missing tables."""
    build, theirs = _Build({}, {}), _tables_of_company()
    with connection.cursor() as cursor:
        for find in (_wrong_triggers, _wrong_tables, _missing_keys):
            for table, name, why in find(connection, cursor):
                is_theirs = table in theirs and not _is_lifted(table)
                faults = build.foreign if is_theirs else build.faults
                faults[name if name not in faults else f"{name} on {table}"] = why
    return build


def _wrong_triggers(
    connection: BaseDatabaseWrapper, cursor: CursorWrapper
) -> Iterator[tuple[str, str, str]]:
    wanted = {trigger.name: trigger for trigger in _triggers_of(connection)}
    triggers = _acting(connection, cursor)
    for name in wanted.keys() - {row[0] for row in triggers}:
        yield wanted[name].table, f"trigger {name}", "it is missing"
    for name, table, body, kind, is_on in triggers:
        mine = wanted.get(name)
        if kind == _CONSTRAINT:
            if not is_on:
                yield table, f"foreign key {name}", "it is switched off"
        elif mine is None:
            yield table, f"trigger {name}", f"it is not ours, on {table}"
        elif (mine.table, mine.body, mine.kind) != (table, body if kind else body.strip(), kind):
            yield table, f"trigger {name}", "it was changed"
        elif not is_on:
            yield table, f"trigger {name}", "it is switched off"


def _wrong_tables(
    connection: BaseDatabaseWrapper, cursor: CursorWrapper
) -> Iterator[tuple[str, str, str]]:
    is_sqlite = connection.vendor == "sqlite"
    ours = _tables()
    cursor.execute(_SQL[connection.vendor]["tables"])
    for name, is_plain in cursor.fetchall():
        table = _fold_case(connection, name)
        if table in ours and not is_plain:
            yield table, f"table {name}", "it is not a plain table of stored rows"
    if not is_sqlite:
        cursor.execute("SELECT current_setting('session_replication_role')")
        if (role := cursor.fetchone()[0]) != "origin":
            why = f"it is {role} for this user: foreign keys are not enforced"
            yield "", "session_replication_role", why


def _missing_keys(
    connection: BaseDatabaseWrapper, cursor: CursorWrapper
) -> Iterator[tuple[str, str, str]]:
    """Yield the foreign keys of our models that should have a constraint and have none."""
    there = set(connection.introspection.table_names(cursor))
    cursor.execute(_SQL[connection.vendor]["keys"])
    held = {
        (_fold_case(connection, own), column, _fold_case(connection, other), its)
        for own, column, other, its in cursor.fetchall()
    }
    models = [model for model in apps.get_models() if model._meta.managed]
    for meta in [model._meta for model in models if model._meta.db_table in there]:
        for field in meta.local_fields:
            if not (isinstance(field, ForeignKey) and getattr(field, "db_constraint", True)):
                continue
            own, to = _fold_case(connection, meta.db_table), field.target_field
            other = _fold_case(connection, to.model._meta.db_table)
            if (own, field.column, other, to.column) not in held:
                name = f"foreign key {meta.db_table}.{field.column}"
                yield meta.db_table, name, "it is missing"


def _acting(
    connection: BaseDatabaseWrapper, cursor: CursorWrapper
) -> list[tuple[str, str, str, int, bool]]:
    """Return the triggers, rules and row policies on tables of the console and of desks.

    Each is its name, table, text, kind and whether it is enabled.
    """
    cursor.execute(_SQL[connection.vendor]["triggers"])
    ours = _tables()
    rows = [(row[0], _fold_case(connection, row[1]), *row[2:]) for row in cursor.fetchall()]
    return [row for row in rows if row[1] in ours or _is_lifted(row[1])]


def _tables() -> set[str]:
    """Return the tables of every app, as a desk may be an app of any name."""
    models = apps.get_models(include_auto_created=True)
    return {model._meta.db_table for model in models if model._meta.managed}


def _tables_of_company() -> set[str]:
    """Return the tables used only by models of OPSCONSOLE_APPS."""
    of_company, others = set[str](), set[str]()
    for model in apps.get_models(include_auto_created=True):
        app = apps.get_app_config(model._meta.app_label).name
        tables = of_company if app in settings.OPSCONSOLE_APPS else others
        tables.add(model._meta.db_table)
    return of_company - others


def _is_lifted(table: str) -> bool:
    return table.startswith(tuple(f"{app}_" for app in _OURS))


def _fold_case(connection: BaseDatabaseWrapper, name: str) -> str:
    """Return a name as the database compares it: SQLite ignores the case of AGENTS_EVENT."""
    return name.lower() if connection.vendor == "sqlite" else name


def before_migrate(
    sender: AppConfig, using: str = DEFAULT_DB_ALIAS, plan: Sequence[object] = (), **kwargs: Any
) -> None:
    """Drop the triggers before migrations run, so that no migration needs to."""
    if plan:
        unprotect(connections[using])


def after_migrate(sender: AppConfig, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Create this version's triggers."""
    protect(connections[using])


def check_record(
    *, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report for `check --database default` where the record could be changed.

    Raises DatabaseError: an unreachable database must not pass as "no issues".
    """
    messages: list[checks.CheckMessage] = []
    for alias in databases or []:
        build = inspect(connections[alias])
        if build.faults:
            messages.append(
                checks.Error(
                    "The record could be changed, as the schema is not the expected one: "
                    f"{list_faults(build.faults)}.",
                    hint="Run manage.py migrate: it creates the triggers again; anything else "
                    "named here has to be repaired by hand. Then run verify_audit.",
                    id="agents.E001",
                )
            )
        if build.foreign:
            messages.append(
                checks.Warning(
                    f"Of your own tables: {list_faults(build.foreign)}.", id="agents.W001"
                )
            )
    return messages


def list_faults(faults: Mapping[str, str]) -> str:
    """Return the faults of a database's schema in one line."""
    return "; ".join(f"{name}: {why}" for name, why in sorted(faults.items()))


# The triggers that keep the record append-only and ended runs unchanged.
#
# For every program, they refuse to change or delete an event or a head, to move a run that has
# ended, to decide a request again and to point a row at another one. Erasure may empty the text
# beside an event, and the texts quoted by an ended run, once. Archived events may be deleted once
# the archive's own event is sealed.


EVENTS, HEADS, TEXTS = ("agents_event", "agents_head", "agents_eventtext")
_APPROVALS, ARCHIVES, TOMBSTONES = ("agents_approval", "agents_archive", "agents_tombstone")
_TABLES = (EVENTS, HEADS, TEXTS, _APPROVALS, ARCHIVES, TOMBSTONES)
CHANNEL = "opsconsole_events"  # PostgreSQL notifies it at each commit that adds events


def _read_sql(vendor: str) -> dict[str, str]:
    """Return the parts of a database's file of SQL by their names, without comments."""
    text = (_HERE / f"{vendor}.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^--- (\w+)$", re.sub(r"(?m)^-- .*\n", "", text), flags=re.MULTILINE)
    return {name: f"{part.rstrip()}\n" for name, part in zip(parts[::2], parts[1::2], strict=True)}


_SQL = {vendor: _read_sql(vendor) for vendor in ("sqlite", "postgresql")}
# Archived rows may be deleted once a head seals the archive's event.
_IN_ARCHIVE = """EXISTS (SELECT 1 FROM agents_tombstone t
  JOIN agents_archive a ON a.id = t.archive_id
  JOIN agents_sealed s ON s.chain = 'workspace/' || a.workspace_id
  WHERE t.run_id = {event}.run_id AND {event}.seq <= t.event_count AND s.event_count >= a.seq)"""
_OF_TEXT = "EXISTS (SELECT 1 FROM agents_event e WHERE e.id = OLD.event_id AND "
_MAY_GO = {
    EVENTS: _IN_ARCHIVE.format(event="OLD"),
    TEXTS: f"{_OF_TEXT}{_IN_ARCHIVE.format(event='e')})",
}
_STAY: dict[str, Any] = tomllib.loads((_HERE / "stays.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class _Trigger:
    """A trigger as this version creates it."""

    table: str
    name: str
    statement: str
    kind: int = 0  # PostgreSQL's tgtype: the sum of _ROW, _BEFORE and the verbs

    @property
    def function(self) -> str:
        """Return the function that it calls on PostgreSQL."""
        return self.name if "$$" in self.statement else "agents_event_append_only"

    @property
    def body(self) -> str:
        """Return the text that identifies this version: on PostgreSQL its function's."""
        body = self.statement
        if self.kind and "$$" not in body:
            body = _SQL["postgresql"]["function"]
        return body.split("$$")[1] if self.kind else body.strip()


_ROW, _BEFORE = 1, 2
_VERBS = {"insert": 4, "delete": 8, "update": 16, "truncate": 32}


def _triggers_of(connection: BaseDatabaseWrapper) -> list[_Trigger]:
    """Return every trigger that should exist."""
    is_sqlite, sql = connection.vendor == "sqlite", _SQL[connection.vendor]
    tables = [name.lower() for name in connection.introspection.table_names()]
    triggers = []
    verbs = ["update", "delete"] + ["truncate"] * (not is_sqlite)
    for table, verb in product([table for table in _TABLES if table in tables], verbs):
        if table in (TEXTS, _APPROVALS, ARCHIVES) and verb == "update":
            continue  # they may change in part: see _STAY
        each = "STATEMENT" if verb == "truncate" else "ROW"
        may = _MAY_GO.get(table, "") if verb == "delete" else ""
        template = sql["refuse_unless" if may else "refuse"]
        statement = template.format(table=table, verb=verb, each=each, may=may)
        kind = 0 if is_sqlite else _BEFORE + _VERBS[verb] + _ROW * (each == "ROW")
        triggers.append(_Trigger(table, f"{table}_no_{verb}", statement, kind))
    if EVENTS in tables and not is_sqlite:
        wake = sql["wake"].format(channel=CHANNEL)
        triggers.append(_Trigger(EVENTS, "agents_event_wake", wake, _VERBS["insert"]))
    if is_sqlite and run_words.TABLE in tables:
        for verb, does in run_words.SQLITE_TRIGGERS.items():
            name = f"{run_words.TABLE}_{verb}"
            triggers.append(_Trigger("agents_run", name, f"CREATE TRIGGER {name} {does}"))
    for table, columns in _STAY.items():
        if table not in tables:
            continue
        is_not = "IS NOT" if is_sqlite else "IS DISTINCT FROM"
        changed = _change_condition(**columns, is_not=is_not)
        statement = sql["stay"].format(table=table, changed=changed)
        kind = 0 if is_sqlite else _BEFORE + _ROW + _VERBS["update"]
        triggers.append(_Trigger(table, f"{table}_stays", statement, kind))
    return triggers


def _change_condition(
    *,
    always: Sequence[str],
    closed: str = "",
    then: Sequence[str] = (),
    once: Mapping[str, str] | None = None,
    is_not: str,
) -> str:
    """Return the SQL condition of a forbidden change."""
    once = once or {}
    differs = {name: f"NEW.{name} {is_not} OLD.{name}" for name in (*always, *then, *once)}
    wrong = [differs[name] for name in then]
    wrong += [f"({differs[name]} AND NOT ({may}))" for name, may in once.items()]
    at_end = [f"({closed} AND ({' OR '.join(wrong)}))"] if wrong else []
    return " OR ".join([*(differs[name] for name in always), *at_end])
