"""`manage.py migrate` on a used database: triggers neither stop it nor get lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installations import Installation, installation
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.both, pytest.mark.slow]

RELEASED = "0013_fewer_indexes"  # the newest migration of version 0.1.0
AT_FIRST = 13 if ON_POSTGRES else 9
ALL = 22 if ON_POSTGRES else 18  # with those of approvals, archives, tombstones and SQLite's words
_TRIGGERS = (
    "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgname LIKE 'agents_%'"
    if ON_POSTGRES
    else "SELECT name FROM sqlite_master WHERE type = 'trigger'"
)
_SCHEMA = (
    (
        "SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity,"
        " character_maximum_length, generation_expression FROM information_schema.columns"
        " WHERE table_schema = 'public'",
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    )
    if ON_POSTGRES
    else ("SELECT tbl_name, name, sql FROM sqlite_master WHERE sql IS NOT NULL",)
)
_DROP = "DROP TRIGGER agents_run_stays" + (" ON agents_run" if ON_POSTGRES else "")


@pytest.fixture
def first_release(tmp_path: Path) -> Iterator[Installation]:
    """Make a database of version 0.1.0, with its triggers."""
    with installation(tmp_path / "home") as home, home.in_one_process() as found:
        found.migrate_one_by_one(RELEASED)
        yield found


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Make a database of this version."""
    place = tmp_path_factory.mktemp("home")
    with installation(place, is_empty=False) as home, home.in_one_process() as found:
        yield found


def triggers(own: Installation) -> list[object]:
    return [name for (name,) in own.sql(_TRIGGERS)]


def schema_of(own: Installation) -> list[list[list[str]]]:
    """Return the console's tables, columns, constraints and indexes, as the words of each.

    SQLite has the text by which each was made, an added column last; a set's words have no order.
    """
    rows = [list(map(str, row)) for statement in _SCHEMA for row in own.sql(statement)]
    return sorted(
        [
            sorted(re.findall(r"\w+|[^\w\s]+", part))
            for part in sorted(re.split(r",\s*(?![^()]*\))", "\n".join(row)))
        ]
        for row in rows
        if row[0].startswith(("agents_", "desk_"))
    )


def test_a_protected_database_of_a_release_is_brought_forward(
    first_release: Installation, own: Installation
) -> None:
    assert len(triggers(first_release)) == AT_FIRST

    ended = first_release.manage("migrate", "--no-input")

    assert (ended.code, ended.err) == (0, "")
    assert len(triggers(first_release)) == ALL
    assert first_release.manage("migrate", "--check").code == 0
    # By 45 migrations, beside one that makes all tables of a new database.
    assert schema_of(first_release) == schema_of(own)


def test_a_missing_trigger_does_not_stop_it_and_is_made_again(own: Installation) -> None:
    own.sql(_DROP)
    said = own.manage("check", "--database", "default")

    ended = own.manage("migrate", "--no-input")

    assert (said.code, "agents.E001" in said.err, "manage.py migrate" in said.err) == (
        1,
        True,
        True,
    )
    assert (ended.code, ended.err) == (0, "")
    assert len(triggers(own)) == ALL
    assert own.manage("check", "--database", "default").code == 0


def test_a_trigger_of_an_older_text_gets_todays(own: Installation) -> None:
    harmless = (
        "CREATE OR REPLACE FUNCTION agents_run_stays() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN NEW; END $$"
    )
    if not ON_POSTGRES:
        own.sql(_DROP)
        harmless = "CREATE TRIGGER agents_run_stays BEFORE UPDATE ON agents_run BEGIN SELECT 1; END"
    own.sql(harmless)

    own.manage("migrate", "--no-input")

    text = "SELECT prosrc FROM pg_proc WHERE proname = 'agents_run_stays'"
    if not ON_POSTGRES:
        text = "SELECT sql FROM sqlite_master WHERE name = 'agents_run_stays'"
    assert "what has ended stays as it is" in str(own.sql(text))


def test_a_migration_that_fails_leaves_the_record_protected(first_release: Installation) -> None:
    first_release.sql(
        "ALTER TABLE agents_run ADD COLUMN question_version integer"
        if ON_POSTGRES
        else "CREATE TABLE new__agents_run (id integer)"  # where SQLite starts to rebuild a table
    )

    ended = first_release.manage("migrate", "--no-input")

    assert ended.code != 0
    assert len(triggers(first_release)) == AT_FIRST
