"""What a command says where the database is older than the program, or away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from agents.management.exit_codes import BAD_USAGE, BEHIND, UNUSABLE
from tests.installations import Installation, installation

pytestmark = pytest.mark.slow

COMMANDS = {
    "work": ["work"],
    "serve": ["serve", "--port", "1"],
    "decide": ["decide", "1", "--approve", "--as", "rita"],
    "verify_audit": ["verify_audit"],
    "seal_audit": ["seal_audit"],
    "add_workspace": ["add_workspace", "eu", "--name", "EU"],
}
AWAY = {
    **{name: COMMANDS[name] for name in ("decide", "verify_audit")},
    "work": ["work", "--once"],
    "check": ["check", "--database", "default"],
    "migrate": ["migrate", "--no-input"],
}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    place = tmp_path_factory.mktemp("home")
    with installation(place) as home, home.in_one_process() as found:
        assert found.manage("migrate", "agents", "0010", "-v0").code == 0
        yield found


@pytest.mark.both
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


@pytest.mark.parametrize("command", AWAY.values(), ids=AWAY)
def test_a_database_that_is_away_is_a_sentence_and_a_code(
    command: list[str], tmp_path: Path
) -> None:
    away = Installation(tmp_path, "postgresql://rita:secret@127.0.0.1:1/opsconsole")

    ended = away.manage(*command)

    said = ended.err.splitlines()[-1]
    assert (ended.code, ended.out) == (UNUSABLE, "")
    assert said.startswith("The database cannot be used (")
    assert "secret" not in ended.err
    assert command[0] == "work" or ended.err == f"{said}\n"  # a worker also logs what it tries


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--host", "no.such.invalid"], "CommandError: no.such.invalid is no address to serve on"),
        (["--port", "99999"], "CommandError: 99999 is not a port"),
    ],
)
def test_a_place_that_nobody_can_serve_on_is_a_sentence_and_a_code(
    given: list[str], sentence: str, tmp_path: Path
) -> None:
    away = Installation(tmp_path, "postgresql://rita:secret@127.0.0.1:1/opsconsole")

    ended = away.manage("serve", *given)

    assert (ended.code, ended.err.count("\n")) == (BAD_USAGE, 1)
    assert ended.err.startswith(sentence)


@pytest.mark.postgres
def test_a_lock_that_somebody_holds_is_told_and_not_taken_for_migrations(
    old: Installation,
) -> None:
    with psycopg.connect(old.url) as somebody:
        somebody.execute("LOCK TABLE agents_run IN ACCESS SHARE MODE")
        ended = old.manage("migrate", "-v0")

    assert (ended.code, ended.out) == (UNUSABLE, "")
    assert ended.err.startswith("The database cannot be used (somebody else holds a lock on it")
