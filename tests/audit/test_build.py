"""Changes to the database's schema that would unprotect the record are named or impossible."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from agents.audit import protection
from agents.models import Event, Run
from tests.audit.test_sealed import faults
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]


@pytest.fixture
def run(scene: Scene) -> Run:
    return scene.done_refund()


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def rebuilt(statement: str, back: str) -> Iterator[None]:
    """Rebuild the database with other DDL for the block."""
    execute(*statement.split("; ", 1))
    try:
        yield
    finally:
        execute(*back.split("; ", 1))


def do_nothing_sqlite(name: str) -> list[str]:
    table = name.partition("_no_")[0].partition("_stays")[0]
    return [
        f"DROP TRIGGER {name}",
        f"CREATE TRIGGER {name} BEFORE UPDATE ON {table} BEGIN SELECT 1; END",
    ]


def do_nothing_postgres(name: str) -> list[str]:
    function = name if name.endswith("_stays") else "agents_event_append_only"
    return [
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN NEW; END $$"
    ]


@pytest.mark.proves("I33")
@pytest.mark.parametrize("name", ["agents_event_no_update", "agents_escalation_stays"])
def test_a_trigger_of_the_same_name_that_does_nothing_is_found(run: Run, name: str) -> None:
    replaced = (do_nothing_sqlite if connection.vendor == "sqlite" else do_nothing_postgres)(name)
    with connection.cursor() as cursor:
        for statement in replaced:
            cursor.execute(statement)

    assert (f"trigger {name}", 0) in faults()
    [said] = protection.check_record(databases=["default"])
    assert f"{name}: it was changed" in said.msg
    assert command("migrate").code == 0
    assert faults() == []


@pytest.mark.proves("I33")
def test_a_trigger_that_is_none_of_ours_is_found(run: Run) -> None:
    tables, is_sqlite = ("agents_effect", "agents_event"), connection.vendor == "sqlite"
    body = "BEGIN SELECT RAISE(IGNORE); END"
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(
                f"CREATE TRIGGER intruder_{table} BEFORE INSERT ON {table} {body}"
                if is_sqlite
                else f"CREATE RULE intruder AS ON DELETE TO {table} DO INSTEAD NOTHING"
            )

    found = {name for name, _ in faults()}

    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(
                f"DROP TRIGGER intruder_{table}" if is_sqlite else f"DROP RULE intruder ON {table}"
            )
    first, second = sorted(found)
    assert first.startswith("trigger intruder" if is_sqlite else "trigger rule intruder")
    assert second == f"trigger intruder_{tables[1]}" or second.startswith(f"{first} on ")


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE TRIGGER agents_event_no_update BEFORE UPDATE OF actor ON agents_event "
        "FOR EACH ROW EXECUTE FUNCTION agents_event_append_only()",
        "CREATE OR REPLACE TRIGGER agents_event_no_update BEFORE UPDATE ON agents_event "
        "FOR EACH ROW WHEN (false) EXECUTE FUNCTION agents_event_append_only()",
        "CREATE OR REPLACE TRIGGER agents_event_no_update BEFORE UPDATE ON agents_event "
        "FOR EACH STATEMENT EXECUTE FUNCTION agents_event_append_only()",
        "CREATE OR REPLACE TRIGGER agents_event_no_update BEFORE UPDATE ON agents_event "
        "FOR EACH ROW EXECUTE FUNCTION agents_event_wake()",
    ],
)
def test_a_trigger_that_fires_less_often_is_found(run: Run, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)

    assert faults() == [("trigger agents_event_no_update", 0)]


ON_DESK = {
    "sqlite": (
        "CREATE TRIGGER intruder BEFORE UPDATE ON desk_charge BEGIN SELECT RAISE(IGNORE);END",
        "DROP TRIGGER intruder",
        "trigger intruder",
    ),
    "postgresql": (
        "CREATE TRIGGER intruder BEFORE UPDATE ON desk_charge FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "DROP TRIGGER intruder ON desk_charge",
        "trigger intruder",
    ),
}
# Of a declared desk, and of the people: their tables have no common prefix.
ON_BANK = {
    vendor: tuple(text.replace("desk_charge", "bank_transfer") for text in texts)
    for vendor, texts in ON_DESK.items()
}
ON_PEOPLE = {
    vendor: tuple(text.replace("desk_charge", "auth_user") for text in texts)
    for vendor, texts in ON_DESK.items()
}
VIEW = (
    "ALTER TABLE agents_eventtext RENAME TO hidden; CREATE VIEW agents_eventtext AS "
    "SELECT * FROM hidden",
    "DROP VIEW agents_eventtext; ALTER TABLE hidden RENAME TO agents_eventtext",
    "table agents_eventtext",
)
REFUNDS = (
    "ALTER TABLE desk_refund RENAME TO hidden; CREATE VIEW desk_refund AS SELECT * FROM hidden",
    "DROP VIEW desk_refund; ALTER TABLE hidden RENAME TO desk_refund",
    "table desk_refund",
)


@pytest.mark.proves("I33")
@pytest.mark.parametrize(
    "change",
    [ON_DESK, ON_BANK, ON_PEOPLE, VIEW, REFUNDS],
    ids=["desk", "bank", "people", "view", "refunds"],
)
def test_a_table_that_is_not_ours_alone_is_found(
    run: Run, change: dict[str, tuple[str, str, str]] | tuple[str, str, str]
) -> None:
    statement, back, name = change[connection.vendor] if isinstance(change, dict) else change

    with rebuilt(statement, back):
        found = faults()

    assert (name, 0) in found
    assert command("migrate").code == 0  # SQLite rewrites triggers when a table is renamed
    assert faults() == []


@pytest.mark.proves("I33")
def test_a_trigger_on_a_companys_own_table_is_named_and_no_fault(run: Run, settings: Any) -> None:
    statement, back, name = ON_BANK[connection.vendor]
    settings.OPSCONSOLE_APPS = ["agents.desks.bank"]

    with rebuilt(statement, back):
        ended = command("verify_audit")
        [said] = protection.check_record(databases=["default"])

    assert ended.code == 0, ended.out
    named = f"{name}: it is not ours, on bank_transfer"
    assert f"Not checked: what acts on your own tables: {named}." in ended.out
    assert (said.id, named in said.msg) == ("agents.W001", True)


@pytest.mark.proves("I33")
@pytest.mark.postgres
def test_a_foreign_key_that_was_dropped_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conrelid = 'agents_run'::regclass AND conname LIKE '%launched_by%'"
        )
        name, made = cursor.fetchone()
    alter = f"ALTER TABLE agents_run {{}} CONSTRAINT {name} {{}}"

    with rebuilt(alter.format("DROP", ""), alter.format("ADD", made)):
        found = faults()
        monkeypatch.setattr(Run._meta.get_field("launched_by"), "db_constraint", False)
        assert faults() == []  # as a company may declare one that is not in the database

    assert ("foreign key agents_run.launched_by_id", 0) in found
    monkeypatch.undo()
    assert faults() == []


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("statement", "back", "name"),
    [
        (
            "ALTER TABLE desk_refund DISABLE TRIGGER ALL",
            "ALTER TABLE desk_refund ENABLE TRIGGER ALL",
            "foreign key desk_refund_charge_id_",
        ),
        (
            "ALTER TABLE desk_refund ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE desk_refund DISABLE ROW LEVEL SECURITY",
            "table desk_refund",
        ),
        (
            "CREATE TABLE heir () INHERITS (desk_refund)",
            "DROP TABLE heir",  # which leaves the table marked as having had one
            "table desk_refund",
        ),
        (
            "SET session_replication_role = replica",
            "SET session_replication_role = origin",
            "session_replication_role",
        ),
    ],
)
def test_foreign_keys_and_rows_that_are_not_held_are_found(
    run: Run, statement: str, back: str, name: str
) -> None:
    with rebuilt(statement, back):
        found = faults()

    assert [place for place, _ in found if place.startswith(name)]
    assert faults() == []


@pytest.mark.proves("I33")
@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement", ["UPDATE agents_event SET actor = 'x'", "DELETE FROM agents_eventtext"]
)
def test_triggers_fire_also_for_a_role_that_replicates(run: Run, statement: str) -> None:
    with (
        rebuilt("SET session_replication_role = replica", "SET session_replication_role = origin"),
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
    ):
        execute(statement)


HIDDEN_TABLES = (
    "CREATE TEMP TABLE agents_tombstone AS SELECT id run_id, 99 event_count, 1 archive_id "
    "FROM agents_run",
    "CREATE TEMP TABLE agents_archive AS SELECT 1 id, 1 workspace_id, 0 seq",
    "CREATE TEMP TABLE agents_sealed AS SELECT 'workspace/1'::text chain, 9 event_count",
    "DELETE FROM agents_eventtext",
)
OTHER_OPERATOR = (
    "CREATE SCHEMA evil",
    "CREATE FUNCTION evil.same(varchar, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "CREATE OPERATOR evil.= (leftarg = varchar, rightarg = varchar, function = evil.same)",
    "SET search_path = evil, pg_catalog, public",
    "UPDATE agents_run SET state = 'stopped'",
)


@pytest.mark.postgres
@pytest.mark.parametrize("attack", [HIDDEN_TABLES, OTHER_OPERATOR])
def test_triggers_ignore_a_sessions_search_path(run: Run, attack: tuple[str, ...]) -> None:
    with pytest.raises(DatabaseError, match=r"append-only|stays as it is"), transaction.atomic():
        execute(*attack)

    execute("ALTER FUNCTION agents_escalation_stays() RESET ALL")
    try:
        assert faults() == [("trigger agents_escalation_stays", 0)]
    finally:
        protection.protect(connection)
    assert faults() == []


@pytest.mark.breaks("I33")
@pytest.mark.skipif(connection.vendor != "sqlite", reason="an idiom of SQLite")
def test_what_replaces_an_event_past_the_triggers_is_found(run: Run) -> None:
    """Another program need not have recursive_triggers on."""
    others = [str(field.column) for field in Event._meta.fields if field.name != "actor"]
    names = ", ".join(others)
    with rebuilt("PRAGMA recursive_triggers = OFF", "PRAGMA recursive_triggers = ON"):
        execute(
            f"REPLACE INTO agents_event (actor, {names}) SELECT 'somebody', {names} "  # noqa: S608
            f"FROM agents_event WHERE run_id = '{run.pk.hex}' AND seq = 3"
        )

    assert faults() == [(f"run {run.pk}", 3)]
