"""The triggers that keep the record append-only and ended runs unchanged.

Whatever program asks, they refuse to change or delete an event or a head, to move a run that has
ended, to decide an escalation again and to point a row at another one. For erasure they allow one
thing: the text beside an event, and the texts quoted by an ended run, may become empty once.
Archived events may be deleted once the archive's own event is sealed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from agents.db import run_words

EVENTS, HEADS, TEXTS = ("agents_event", "agents_head", "agents_eventtext")
APPROVALS, ARCHIVES, TOMBSTONES = ("agents_approval", "agents_archive", "agents_tombstone")
TABLES = (EVENTS, HEADS, TEXTS, APPROVALS, ARCHIVES, TOMBSTONES)
CHANNEL = "opsconsole_events"  # PostgreSQL notifies it at each commit that adds events

_SQLITE = """
CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END
"""
POSTGRES_FUNCTION = """
CREATE OR REPLACE FUNCTION agents_event_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the record is append-only'; END $$
"""
_POSTGRES = """
CREATE OR REPLACE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
FOR EACH {each} EXECUTE FUNCTION agents_event_append_only()
"""
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
_SQLITE_GO = """
CREATE TRIGGER {table}_no_delete BEFORE delete ON {table}
WHEN NOT {may}
BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END
"""
_POSTGRES_GO = """
CREATE OR REPLACE FUNCTION {table}_no_delete() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
IF NOT {may} THEN
RAISE EXCEPTION 'the record is append-only';
END IF;
RETURN OLD;
END $$;
CREATE OR REPLACE TRIGGER {table}_no_delete BEFORE delete ON {table}
FOR EACH ROW EXECUTE FUNCTION {table}_no_delete()
"""
# It only wakes listeners: data always comes from the table.
_POSTGRES_WAKE = f"""
CREATE OR REPLACE FUNCTION agents_event_wake() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('{CHANNEL}', ''); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER agents_event_wake AFTER INSERT ON agents_event
FOR EACH STATEMENT EXECUTE FUNCTION agents_event_wake()
"""
# What stays: (table, columns that never change, when a row is closed, columns that no longer change
# then, and columns that may change once in a given way). Other texts are left out because a person
# may have to be erased. References decide whose rules hold and who may answer.
_ERASES = "OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL"
_OF_ERASED = "EXISTS (SELECT 1 FROM agents_run WHERE id = OLD.run_id AND erased_at IS NOT NULL)"
_STAY: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...], dict[str, str]], ...] = (
    (
        "agents_run",
        ("workspace_id", "policy_id", "launched_by_id", "again_of_id"),
        "OLD.ended_at IS NOT NULL",
        ("state", "ended_at", "pattern", "book_id"),
        {
            "erased_at": "OLD.erased_at IS NULL",
            "archived_at": "OLD.archived_at IS NULL",
            # The code stays; what it quoted goes.
            "stop_reason": f"{_ERASES} AND OLD.stop_reason LIKE NEW.stop_reason || ':%'",
        },
    ),
    (
        "agents_escalation",
        ("workspace_id", "run_id", "step_id"),
        "OLD.state <> 'open'",
        (
            "state",
            "decided_by_id",
            "decided_from",
            "decided_at",
            "granted_minor",
            "assigned_to_id",
            "assigned_team_id",
            "approval_id",
        ),
        {
            "action_sha256": f"NEW.action_sha256 = '' AND {_OF_ERASED}",
            "likeness": f"NEW.likeness = '' AND {_OF_ERASED}",
            "patch": f"NEW.patch IS NULL AND {_OF_ERASED}",
        },
    ),
    (
        APPROVALS,
        (
            *("id", "run_id", "escalation_id", "by_id", "account", "at", "resource"),
            *("granted_minor", "currency", "is_simulated"),
        ),
        "1 = 1",
        (),
        {
            "action_sha256": f"NEW.action_sha256 = '' AND {_OF_ERASED}",
            "patch": f"NEW.patch IS NULL AND {_OF_ERASED}",
            "comment": f"NEW.comment = '' AND {_OF_ERASED}",
        },
    ),
    ("agents_effect", ("run_id", "step_id", "review_id", "escalation_id", "key"), "", (), {}),
    (
        ARCHIVES,
        (
            *("id", "workspace_id", "number", "before", "at", "runs", "sha256", "tombstones"),
            "seq",
        ),
        "1 = 1",
        (),
        {"let_go_at": "OLD.let_go_at IS NULL"},
    ),
    (
        TEXTS,
        ("id", "event_id", "name"),
        "1 = 1",
        (),
        dict.fromkeys(("text", "salt", "erased_at"), f"{_ERASES} AND NEW.text = ''"),
    ),
)
_SQLITE_OVER = """
CREATE TRIGGER {table}_stays BEFORE UPDATE ON {table}
WHEN {changed}
BEGIN SELECT RAISE(ABORT, 'what has ended stays as it is'); END
"""
# A function names the columns, so that a later migration may still alter them; the trigger's own
# WHEN would bind them.
_POSTGRES_OVER = """
CREATE OR REPLACE FUNCTION {table}_stays() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
IF {changed} THEN
RAISE EXCEPTION 'what has ended stays as it is' USING ERRCODE = 'integrity_constraint_violation';
END IF;
RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER {table}_stays BEFORE UPDATE ON {table}
FOR EACH ROW EXECUTE FUNCTION {table}_stays()
"""


@dataclass(frozen=True)
class Trigger:
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
        body = POSTGRES_FUNCTION if self.kind and "$$" not in self.statement else self.statement
        return body.split("$$")[1] if self.kind else body.strip()


_ROW, _BEFORE = 1, 2
_VERBS = {"insert": 4, "delete": 8, "update": 16, "truncate": 32}


def triggers_of(connection: BaseDatabaseWrapper) -> list[Trigger]:
    """Return every trigger that should exist."""
    is_sqlite = connection.vendor == "sqlite"
    tables = [name.lower() for name in connection.introspection.table_names()]
    found = []
    for table, verb in _refused_verbs(tables, is_sqlite):
        each = "STATEMENT" if verb == "truncate" else "ROW"
        template = _SQLITE if is_sqlite else _POSTGRES
        may = _MAY_GO.get(table, "") if verb == "delete" else ""
        if may:
            template = _SQLITE_GO if is_sqlite else _POSTGRES_GO
        statement = template.format(table=table, verb=verb, each=each, may=may)
        kind = 0 if is_sqlite else _BEFORE + _VERBS[verb] + _ROW * (each == "ROW")
        found.append(Trigger(table, f"{table}_no_{verb}", statement, kind))
    if EVENTS in tables and not is_sqlite:
        found.append(Trigger(EVENTS, "agents_event_wake", _POSTGRES_WAKE, _VERBS["insert"]))
    if is_sqlite and run_words.TABLE in tables:
        for verb, does in run_words.SQLITE_TRIGGERS.items():
            name = f"{run_words.TABLE}_{verb}"
            found.append(Trigger("agents_run", name, f"CREATE TRIGGER {name} {does}"))
    for table, always, over, then, once in _STAY:
        if table not in tables:
            continue
        is_not = "IS NOT" if is_sqlite else "IS DISTINCT FROM"
        changed = _change_condition(always, over, then, once, is_not=is_not)
        template = _SQLITE_OVER if is_sqlite else _POSTGRES_OVER
        statement = template.format(table=table, changed=changed)
        kind = 0 if is_sqlite else _BEFORE + _ROW + _VERBS["update"]
        found.append(Trigger(table, f"{table}_stays", statement, kind))
    return found


def _change_condition(
    always: Sequence[str], over: str, then: Sequence[str], once: Mapping[str, str], *, is_not: str
) -> str:
    """Return the SQL condition of a forbidden change."""
    differs = {name: f"NEW.{name} {is_not} OLD.{name}" for name in (*always, *then, *once)}
    wrong = [differs[name] for name in then]
    wrong += [f"({differs[name]} AND NOT ({may}))" for name, may in once.items()]
    at_end = [f"({over} AND ({' OR '.join(wrong)}))"] if wrong else []
    return " OR ".join([*(differs[name] for name in always), *at_end])


def _refused_verbs(tables: Sequence[str], is_sqlite: bool) -> list[tuple[str, str]]:
    """Return each existing table with the verbs that are refused on it."""
    verbs = ["update", "delete"] + ["truncate"] * (not is_sqlite)
    return [
        (table, verb)
        for table in TABLES
        for verb in verbs
        # Three of them may change in part: see _STAY.
        if table in tables and not (table in (TEXTS, APPROVALS, ARCHIVES) and verb == "update")
    ]
