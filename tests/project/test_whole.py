"""What a complete run of the suite must have shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from agents.engine.runtime import crashpoints
from tests import proofs, whole
from tests.processes import LONGEST

WATCHED = """
from tests.whole import Whole

def pytest_configure(config):
    config.pluginmanager.register(Whole(), "whole")
"""


def every_proof() -> set[str]:
    return {test for promise in proofs.promises() for test in promise.tests}


def test_a_proof_that_did_not_pass_is_named() -> None:
    gone = "tests/engine/test_run.py::test_an_escalation_that_expires_is_a_no"

    said = whole.missing(every_proof() - {gone}, set(crashpoints.POINTS))

    assert said == [f"did not pass, and shows I29: {gone}"]


def test_a_crash_point_that_killed_nobody_is_named() -> None:
    said = whole.missing(every_proof(), set(crashpoints.POINTS) - {"decide.after_commit"})

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
