"""`manage.py migrate` on a used database: triggers neither stop it nor get lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installations import Installation, installation
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.both, pytest.mark.slow]

ALL = 22 if ON_POSTGRES else 18  # with those of approvals, archives, tombstones and SQLite's words
_TRIGGERS = (
    "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgname LIKE 'agents_%'"
    if ON_POSTGRES
    else "SELECT name FROM sqlite_master WHERE type = 'trigger'"
)
_DROP = "DROP TRIGGER agents_run_stays" + (" ON agents_run" if ON_POSTGRES else "")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Make a database of this version."""
    place = tmp_path_factory.mktemp("home")
    with installation(place, is_empty=False) as home, home.in_one_process() as found:
        yield found


def triggers(own: Installation) -> list[object]:
    return [name for (name,) in own.sql(_TRIGGERS)]


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


def test_a_migration_that_fails_leaves_the_record_protected(tmp_path: Path) -> None:
    with installation(tmp_path / "home", is_empty=False) as home, home.in_one_process() as own:
        own.sql("DELETE FROM django_migrations WHERE app = 'bank'")  # whose tables are there

        ended = own.manage("migrate", "--no-input")

        assert ended.code != 0
        assert len(triggers(own)) == ALL
