"""Files are readable by their owner only, also in an existing directory."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database import migrated_file
from tests.installations import LONGEST, Installation
from tests.ports import free_port
from tests.processes import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Make a data directory with the permissions that a volume or checkout often has."""
    before = os.umask(0o022)
    place = tmp_path / "data"
    place.mkdir(mode=0o755)
    yield place
    os.umask(before)


def readable(home: Path) -> list[str]:
    """Return the files that others on this machine could read."""
    found = [path for path in home.rglob("*") if "static" not in str(path)]
    return [path.name for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_nobody_else_reads_database_or_mail(home: Path) -> None:
    own = Installation(home, f"sqlite:///{home}/opsconsole.sqlite3")
    assert own.manage("demo", "--prepare").code == 0
    ended = own.manage("run_pattern", "supervisor", "--subject", "42", "--goal", "Refund 500 USD")
    assert ended.code == 0, ended.err

    assert list((home / "mail").iterdir())
    assert readable(home) == []


def test_readable_database_is_refused_with_advice(home: Path) -> None:
    own = Installation(home, f"sqlite:///{home}/opsconsole.sqlite3")
    (home / "opsconsole.sqlite3").touch(mode=0o644)

    ended = own.manage("verify_audit")
    home.chmod(0o700)

    assert (ended.code, ended.out) == (2, "")
    assert "can be read by others: chmod 700 its directory" in ended.err
    assert own.manage("check").code == 0


@pytest.mark.parametrize(
    ("place", "program", "says"),
    [(".", "verify_audit", "OPSCONSOLE_DATA_DIR is"), ("static", "collectstatic", "/static/")],
)
def test_unwritable_place_exits_with_2(home: Path, place: str, program: str, says: str) -> None:
    closed = home / place
    closed.mkdir(exist_ok=True)
    closed.chmod(0o500)
    as_others = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]  # the rest of root
    ended = subprocess.run(
        [*(as_others if os.getuid() == 0 else []), sys.executable, "manage.py", program],
        cwd=ROOT,
        env=Installation(home, f"sqlite:///{home}/opsconsole.sqlite3").environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    closed.chmod(0o700)

    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("opsconsole cannot start: ")
    assert (says in ended.stderr, ended.stderr.count("\n")) == (True, 1)


@pytest.mark.proves("F9")
@pytest.mark.parametrize("program", ["work", "serve"])
@pytest.mark.parametrize("seconds", [0, 0.25, 1.0, 2.5])
def test_process_stopped_early_exits_with_0(
    home: Path, program: str, seconds: float, django_db_setup: None
) -> None:
    own = Installation(home, f"sqlite:///{home}/opsconsole.sqlite3")
    shutil.copy(migrated_file(), home / "opsconsole.sqlite3")
    (home / "opsconsole.sqlite3").chmod(0o600)
    settings = home / "settings"
    os.mkfifo(settings)  # its reader waits there, so we know where the process is
    child = subprocess.Popen(
        [sys.executable, "manage.py", program],
        cwd=ROOT,
        env=own.environment(OPSCONSOLE_PORT=str(free_port()), OPSCONSOLE_ENV_FILE=str(settings)),
        stderr=subprocess.PIPE,
    )
    with settings.open("w"):
        settings.unlink()  # a later call finds none
        if not seconds:
            child.send_signal(signal.SIGTERM)
    if not seconds:  # with the file closed: a signal just before a read does not interrupt it
        child.wait(LONGEST)
    time.sleep(seconds)
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=LONGEST)

    assert child.returncode == 0, said
