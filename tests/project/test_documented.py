"""Runs the commands that the docs give operators, in order, on data that nobody has used."""

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from threading import Thread
from typing import Any

import pytest

from tests import database
from tests.installations import LONGEST, Installation
from tests.nursery import Program
from tests.processes import ROOT

pytestmark = pytest.mark.slow

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


# Stands in for SQLite's command where this machine lacks it.
SQLITE3 = f"""#!/bin/sh
exec {sys.executable} -c 'import sqlite3, sys
place, command = sys.argv[1:]
database = sqlite3.connect(place)
if command.startswith(".backup"):
    database.backup(sqlite3.connect(command.split(chr(39))[1]))
else:
    print(*database.execute(command).fetchone())' "$@"
"""

# The shell's Python: has the test start the program where Django is set up, which takes most of
# the time of each command.
PYTHON = f"""#!{sys.executable} -IS
import json, os, socket, sys
line, (mine, theirs) = socket.socket(fileno=int(os.environ["LINE"])), socket.socketpair()
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), os.umask(0)])
socket.send_fds(line, [asked.encode()], [0, 1, 2, theirs.fileno()])
theirs.close()
sys.exit(int(mine.recv(9)))
"""


def start_programs(line: socket.socket) -> None:
    """Start what `python` is asked for, in the shell's place and with its streams."""
    while (asked := socket.recv_fds(line, 1 << 17, 4))[0]:
        (given, place, env, mask), (*fds, report) = json.loads(asked[0]), asked[1]
        streams: Any = dict(zip(("stdin", "stdout", "stderr"), fds, strict=True))
        before = os.umask(mask)
        env["DJANGO_SETTINGS_MODULE"] = "opsconsole.settings"
        program = Program(["python", *given], is_set_up=True, cwd=place, env=env, **streams)
        os.umask(before)
        for fd in fds:
            os.close(fd)
        with socket.socket(fileno=report) as told:
            told.send(b"%d" % program.wait(LONGEST))


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Installation]:
    home, programs = tmp_path / "data", tmp_path / "programs"
    programs.mkdir()
    own = {"python": PYTHON} if which("sqlite3") else {"python": PYTHON, "sqlite3": SQLITE3}
    for name, text in own.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o700)
    shell, ours = socket.socketpair(type=socket.SOCK_DGRAM)
    paths = (str(programs), os.environ["PATH"])
    settings = {
        "OPSCONSOLE_PRODUCTION": "1",
        "OPSCONSOLE_ALLOWED_HOSTS": "ops.example.com",
        "OPSCONSOLE_CSRF_TRUSTED_ORIGINS": "https://ops.example.com",
        "FIRST_PASSWORD": "a long walk by the sea",
        "PATH": os.pathsep.join(paths),
        "LINE": str(shell.fileno()),
        "PYTHONPATH": str(ROOT),
    }
    home.mkdir(mode=0o700)
    database.copy_file(home / "opsconsole.sqlite3")  # test_private.py begins with nothing
    starting = Thread(target=start_programs, args=(ours,))
    starting.start()
    yield Installation(home, f"sqlite:///{home}/opsconsole.sqlite3", settings)
    shell.send(b"")
    starting.join()
    shell.close()
    ours.close()


def run_block(own: Installation, block: str, place: Path, *, fails: str = "") -> str:
    """Run a block of the docs in a shell, in its own directory with the programs.

    Where it is to fail, the shell goes on after an error, as an operator's does.
    """
    for name in ("manage.py", "scripts", "agents", "opsconsole", "static", "templates"):
        if not (place / name).exists():
            (place / name).symlink_to(ROOT / name)
    ended = subprocess.run(
        ["sh", "-u" if fails else "-eu", "-c", block],
        cwd=place,
        env=own.environment(),
        capture_output=True,
        pass_fds=[int(own.settings["LINE"])],
        text=True,
        timeout=LONGEST,
    )
    is_as_said = fails in ended.stderr and bool(fails) == bool(ended.returncode)
    assert is_as_said, f"{block}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.mark.proves("I37")
def test_an_operator_can_type_what_the_pages_say(fresh: Installation, tmp_path: Path) -> None:
    place = tmp_path / "checkout"
    place.mkdir()
    pages = ("install", "backup", "upgrading")
    blocks = [block for page in pages for block in blocks_of(page)]

    said = [run_block(fresh, block, place) for block in blocks[:4]]
    run_block(
        fresh, f"export OPSCONSOLE_AUDIT_KEY=none\n{blocks[3]}", place, fails="it seals nothing"
    )
    press, release = blocks_of("people")
    told = run_block(fresh, press, place) + run_block(fresh, release, place)
    assert told.endswith("released; runs that were stopped stay stopped.\n")
    backup, live = fresh.home / "backup.sqlite3", fresh.home / "opsconsole.sqlite3"
    kept, before = backup.rename(fresh.home / "elsewhere"), live.read_bytes()
    run_block(fresh, blocks[4], place, fails="backup.sqlite3")
    backup.write_bytes(b"damaged")
    run_block(fresh, blocks[4], place, fails="file is not a database")
    assert (live.read_bytes(), (fresh.home / "before-restore").exists()) == (before, False)
    kept.rename(backup)
    said += [run_block(fresh, block, place) for block in blocks[4:]]

    assert len(said) == 6
    assert (fresh.home / "before-restore/opsconsole.sqlite3").read_bytes() == before
    assert "2 customers and 1 charges are new" in said[1]
    assert "ok: success" in said[2]
    assert all("hold" in each for each in (said[2], said[4], said[5]))
    assert fresh.manage("erase_subject", "eu", "42", "--reason", "letter 7").code == 0
    left = {path.name for path in fresh.home.rglob("*") if holds(path, "noor@example.com")}
    erasing = section((ROOT / "docs/personal-data.md").read_text(), "1. Read the")
    by_hand = re.findall(r"`\$OPSCONSOLE_DATA_DIR/(.*?)`", erasing)
    assert left - {"opsconsole.sqlite3", "opsconsole.sqlite3-wal"} == set(by_hand)


def test_backup_before_an_upgrade_needs_a_stop() -> None:
    page = (ROOT / "docs/upgrading.md").read_text()
    steps = page.partition("## With a pause\n")[2]

    order = [steps.index(word) for word in ("Stop all", "seal_audit", "Back up", "new release")]

    assert order == sorted(order)


def blocks_of(page: str) -> list[str]:
    return BLOCK.findall((ROOT / f"docs/{page}.md").read_text())


def holds(path: Path, text: str) -> bool:
    return path.is_file() and text.encode() in path.read_bytes()


def section(page: str, beginning: str) -> str:
    """Return the paragraph with this beginning."""
    [found] = [part for part in page.split("\n\n") if part.startswith(beginning)]
    return found


def test_the_newest_heading_of_the_changelog_is_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## (\S+) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] == version


def test_each_release_has_its_stored_databases_and_its_row() -> None:
    released = re.findall(r"^## (\S+) - \d", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    stored = {path.name for path in (ROOT / "tests/upgrade/stored").glob("[0-9]*")}
    rows = re.findall(r"^\| \d.*", (ROOT / "docs/upgrading.md").read_text(), re.MULTILINE)

    assert stored == {f"{one}-{kind}.tar.gz" for one in released for kind in ("postgres", "sqlite")}
    assert [one for one in released if not any(one in row for row in rows)] == []
