"""What commands say if the database is older than the program, or away."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import psycopg
import pytest

from agents.management.exit_codes import BAD_USAGE, BEHIND, UNUSABLE
from tests.e2e.workers import until
from tests.installations import LONGEST, Installation, installation
from tests.nursery import Program
from tests.ports import free_port
from tests.processes import ROOT
from tests.web.serving import PASSWORD, is_up

pytestmark = pytest.mark.slow

COMMANDS = {
    "work": ["work"],
    "serve": ["serve", "--port", "1"],
    "decide": ["decide", "1", "--approve", "--as", "rita"],
    "verify_audit": ["verify_audit"],
    "check": ["check", "--database", "default"],
    "seal_audit": ["seal_audit"],
    "add_workspace": ["add_workspace", "eu", "--name", "EU", "--desk", "refunds"],
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
    with installation(place, is_empty=False) as home, home.in_one_process() as found:
        found.sql("DELETE FROM django_migrations WHERE app = 'bank'")
        yield found


@pytest.mark.both
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_unmigrated_database_gives_sentence_and_code(old: Installation, command: list[str]) -> None:
    ended = old.manage(*command)

    assert (ended.code, ended.out) == (BEHIND, "")
    assert ended.err.startswith("The database is older than this program and lacks 1 migration: ")
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
        (["--host", "no.such.invalid"], "BadUsage: no.such.invalid is not an address to"),
        (["--port", "99999"], "BadUsage: 99999 is not a port"),
    ],
)
def test_unservable_address_gives_sentence_and_code(
    given: list[str], sentence: str, tmp_path: Path
) -> None:
    away = Installation(tmp_path, "postgresql://rita:secret@127.0.0.1:1/opsconsole")

    ended = away.manage("serve", *given)

    assert (ended.code, ended.err.count("\n")) == (BAD_USAGE, 1)
    assert ended.err.startswith(sentence)


@pytest.mark.postgres
def test_held_lock_is_not_taken_for_missing_migrations(old: Installation) -> None:
    with psycopg.connect(old.url) as somebody:
        somebody.execute("LOCK TABLE agents_run IN ACCESS SHARE MODE")
        ended = old.manage("migrate", "-v0")

    assert (ended.code, ended.out) == (UNUSABLE, "")
    assert ended.err.startswith("The database cannot be used (another session holds a lock on it")


@pytest.mark.proves("F37")
@pytest.mark.both
def test_foreign_tables_are_reported_by_pages_and_worker(tmp_path: Path) -> None:
    """Running them during or before an upgrade is reported plainly, not as an error of ours."""
    with installation(tmp_path / "home", is_empty=False) as own, ExitStack() as ending:
        with own.in_one_process() as made:
            made.manage("add_workspace", "eu", "--name", "EU", "--desk", "refunds")
            made.manage("collectstatic", "--no-input", "-v0")
        own.manage("add_member", "eu", "rita", "reviewer", "--password-stdin", given=PASSWORD)
        port, site = free_port(), build_opener(HTTPCookieProcessor())

        def start(*program: str) -> subprocess.Popen[str]:
            child = Program(
                [sys.executable, "manage.py", *program],
                cwd=ROOT,
                env=own.environment(
                    OPSCONSOLE_LEASE_SECONDS="1",
                    OPSCONSOLE_LIVE_RECHECK_SECONDS="0.2",
                    OPSCONSOLE_POLL_SECONDS="0.1",
                ),
                stderr=subprocess.PIPE,
                text=True,
            )
            ending.callback(child.kill)
            return child

        def ask(path: str, **form: str) -> tuple[int, str]:
            asked = Request(f"http://127.0.0.1:{port}{path}", urlencode(form).encode() or None)
            try:
                with site.open(asked, timeout=LONGEST) as answer:
                    return answer.status, "" if path == "/live/" else answer.read().decode()
            except HTTPError as error:
                return error.code, error.read().decode()

        web, worker = start("serve", "--port", str(port)), start("work")
        until(lambda: is_up(port))
        token = re.findall('name="csrfmiddlewaretoken" value="(.+?)"', ask("/sign-in/")[1])[0]
        ask("/sign-in/", username="rita", password=PASSWORD, csrfmiddlewaretoken=token)
        watched = site.open(f"http://127.0.0.1:{port}/live/", timeout=LONGEST)
        before = [ask("/runs/")[0], watched.status]

        own.sql("ALTER TABLE agents_membership RENAME COLUMN role TO later")
        own.sql("ALTER TABLE agents_run RENAME COLUMN wake_at TO later")
        told = watched.read().decode()
        page, stream, figures = ask("/runs/"), ask("/live/"), ask("/metrics")
        first = worker.stderr.readline() if worker.stderr else ""  # it has looked for runs
        time.sleep(1)
        again = ask("/runs/")
        ended = {}
        for name, child in (("web", web), ("worker", worker)):
            child.terminate()
            ended[name] = child.communicate(timeout=LONGEST)[1]

    assert before == [200, 200]
    assert [page[0], stream[0], figures[0], again[0]] == [503] * 4
    assert "event: ended" not in told  # on which the page would reload and be gone
    assert "The database belongs to another release" in page[1]
    for said in (ended["web"], first + ended["worker"]):
        assert said.count("The database has other tables than this program: ") == 1, said
        assert "Traceback" not in said
    assert (web.returncode, worker.returncode) == (0, 0)
