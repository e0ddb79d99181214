"""What a command says where the database is older than the program, or away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.management.database_failures import BEHIND, UNUSABLE
from tests.installations import Installation, installation

pytestmark = [pytest.mark.both, pytest.mark.slow]

COMMANDS = {
    "work": ["work"],
    "serve": ["serve", "--port", "1"],
    "decide": ["decide", "1", "--approve", "--as", "rita"],
    "verify_audit": ["verify_audit"],
    "seal_audit": ["seal_audit"],
    "add_workspace": ["add_workspace", "eu", "--name", "EU"],
}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    place = tmp_path_factory.mktemp("home")
    with installation(place) as home, home.in_one_process() as found:
        assert found.manage("migrate", "agents", "0010", "-v0").code == 0
        yield found


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_database_that_lacks_migrations_is_a_sentence_and_a_code(
    old: Installation, command: list[str]
) -> None:
    ended = old.manage(*command)

    assert (ended.code, ended.out) == (BEHIND, "")
    assert ended.err.startswith("The database is older than this program and lacks ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "asked", [["decide", "--help"], ["help", "seal_audit"], ["work", "-h"]], ids=" ".join
)
def test_help_needs_no_database_and_writes_nothing(asked: list[str], tmp_path: Path) -> None:
    home = tmp_path / "none"

    ended = Installation(home, "").manage(*asked)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("usage: ")
    assert not home.exists()


@pytest.mark.parametrize("name", ["decide", "verify_audit"])
def test_a_database_that_is_away_is_a_sentence_and_a_code(name: str, tmp_path: Path) -> None:
    away = Installation(tmp_path, "postgresql://rita:secret@127.0.0.1:1/opsconsole")

    ended = away.manage(*COMMANDS[name])

    assert (ended.code, ended.out) == (UNUSABLE, "")
    assert ended.err.startswith("The database cannot be used (")
    assert (ended.err.count("\n"), "secret" in ended.err) == (1, False)
