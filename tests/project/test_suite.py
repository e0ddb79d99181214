"""README's test command passes on a bare machine, and a complete run has shown everything."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from tests import browsers, conftest, postgres, proofs, suite, whole
from tests.processes import LONGEST, ROOT

BROWSER_TEST, PURE_TEST = "tests/web/test_handover.py", "tests/core/test_money.py"


def apart() -> list[str]:
    """Return a prefix that runs a command without browser, Java, Node, PostgreSQL or network.

    It uses namespaces, so that even absolute paths find none of them; empty
    if this machine allows none.
    """
    unshare, shell, mount = (which(name) or name for name in ("unshare", "sh", "mount"))
    own = [unshare, "--map-root-user", "--mount", "--net"]
    try:
        subprocess.run([*own, mount, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    names = (*browsers.COMMANDS, "java", "node", "psql", "pg_ctl")
    there = {str(Path(path).resolve()) for name in names if (path := which(name))}
    hidden = "".join(f"{mount} --bind /dev/null {path} && " for path in sorted(there))
    return [*own, shell, "-c", f'{hidden}exec "$@"', "apart"]


def run_suite(tmp_path: Path, *tests: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run README's command for some files of tests, with no programs to find."""
    make = which("make")
    assert make
    # Nor a parent make's variables, with which make prints its directory at the end.
    not_ours = ("OPSCONSOLE_", "PLAYWRIGHT_", "MAKE", "MFLAGS")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(not_ours)}
    nothing = {
        "PATH": str(tmp_path),
        "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path),
        "PLAYWRIGHT_DOWNLOAD_HOST": "http://127.0.0.1:9",  # where nobody listens
    }
    return subprocess.run(
        # Packages are installed; from here on nothing may be downloaded.
        [
            *apart(),
            make,
            "-o",
            ".venv/.installed-dev",
            "-o",
            ".sdk-venv/.installed",
            "tests",
            f"PYTEST_ARGS={' '.join(tests)}",
        ],
        cwd=ROOT,
        env={**ours, **nothing, **more},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


@pytest.mark.slow
def test_missing_browser_skips_tests_with_advice(tmp_path: Path) -> None:
    ended = run_suite(tmp_path, BROWSER_TEST, PURE_TEST)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    sqlite, postgresql, browser = ended.stdout.splitlines()[-3:]
    assert re.match(r"SQLite:     \d+ passed, 1 skipped", sqlite)
    left_out = f"SKIPPED: .*{postgres.VARIABLE} may name one"
    reached = "" if apart() else "|.*passed"
    assert re.match(f"PostgreSQL: ({left_out}{reached})", postgresql)
    assert browser == f"Browser:    SKIPPED: {browsers.ADVICE}"
    assert browsers.MISSING in ended.stdout.partition(BROWSER_TEST)[2]


def test_a_browser_that_playwright_cannot_drive_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver needs a library that a bare Debian lacks."""
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(tmp_path / "node"))
    monkeypatch.setenv(browsers.VARIABLE, which("true") or "")

    assert browsers.find.__wrapped__() == ""


def test_a_failed_pass_does_not_end_in_words_of_success() -> None:
    assert suite.verdict("5 passed in 1.00s", 0) == "5 passed in 1.00s"
    assert suite.verdict("1 failed, 4 passed", 1) == "1 failed, 4 passed"
    assert suite.verdict("5 passed in 1.00s", 1) == "FAILED, see above: 5 passed in 1.00s"


WATCHED = """
from tests.whole import Whole

def pytest_configure(config):
    config.pluginmanager.register(Whole(), "whole")
"""


def every_proof() -> set[str]:
    return {test for promise in proofs.promises() for test in promise.tests}


def test_a_proof_that_did_not_pass_is_named() -> None:
    gone = "tests/engine/test_run.py::test_an_escalation_that_expires_is_a_no"

    said = whole.missing(every_proof() - {gone}, whole.POINTS)

    assert said == [f"did not pass, and shows I29: {gone}"]


def test_a_crash_point_that_killed_nobody_is_named() -> None:
    said = whole.missing(every_proof(), whole.POINTS - {"decide.after_commit"})

    assert said == ["no test has made a worker die at decide.after_commit"]


@pytest.mark.parametrize(
    ("narrowed", "code"),
    [((), 1), (("-n", "1"), 1), (("-k", "one"), 0), (("tests/test_one.py",), 0)],
)
@pytest.mark.slow
def test_only_a_whole_run_is_held_to_it(
    tmp_path: Path, narrowed: tuple[str, ...], code: int
) -> None:
    """A suite of one test passes unless it claims to be complete."""
    ended = run_suite_of_one(tmp_path, "pass", *narrowed)

    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ("no test has made a worker die at" in ended.stdout) == bool(code)


@pytest.mark.slow
def test_what_killed_in_a_worker_of_xdist_counts(tmp_path: Path) -> None:
    killed = "from tests.whole import died_at; died_at.add('decide.after_commit')"

    alone = run_suite_of_one(tmp_path, killed).stdout.splitlines()
    shared = run_suite_of_one(tmp_path, killed, "-n", "1").stdout.splitlines()

    points = [line for line in alone if "made a worker die at" in line]
    assert points
    assert not any("decide.after_commit" in line for line in points)
    assert points == [line for line in shared if "made a worker die at" in line]


def run_suite_of_one(
    folder: Path, statement: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a suite with this statement as its only test, watched like the whole suite."""
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "test_one.py").write_text(f"def test_one():\n    {statement}\n")
    (folder / "tests" / "conftest.py").write_text(WATCHED)
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:django", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(proofs.TESTS.parent), "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


ELSEWHERE = "192.0.2.1"  # reserved for documentation; nobody has it


def test_another_machine_cannot_be_reached() -> None:
    with socket.socket() as outgoing, pytest.raises(ConnectionRefusedError, match=ELSEWHERE):
        outgoing.connect((ELSEWHERE, 443))
    with pytest.raises(ConnectionRefusedError, match=r"models\.example\.com"):
        socket.getaddrinfo("models.example.com", 443)

    assert len(conftest._attempts) == 2
    conftest._attempts.clear()  # or this test would fail, which is the guard's purpose


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=2).close()
