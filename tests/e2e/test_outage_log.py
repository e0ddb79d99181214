"""During a database outage, worker and web log a few lines, not thousands."""

import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.e2e.workers import until
from tests.installations import LONGEST, Installation
from tests.nursery import Program
from tests.ports import free_port
from tests.processes import ROOT

pytestmark = pytest.mark.slow

AWAY = 3.0  # seconds after its first line: thirty looks, three sweeps of leases


@pytest.mark.parametrize("dispatch", ["polling", "procrastinate"])
def test_a_worker_without_a_database_says_so_in_a_few_lines(dispatch: str, tmp_path: Path) -> None:
    own = Installation(tmp_path, f"postgresql://rita@127.0.0.1:{free_port()}/opsconsole")
    child = Program(
        [sys.executable, "manage.py", "work"],
        cwd=ROOT,
        env=own.environment(OPSCONSOLE_DISPATCH=dispatch, OPSCONSOLE_LEASE_SECONDS="1"),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    first = child.stderr.readline()  # it works, and has found no database
    time.sleep(AWAY)
    child.terminate()
    said = first + child.communicate(timeout=LONGEST)[1]

    assert child.returncode == 0
    assert 1 <= len(said.splitlines()) <= 5, said
    assert "The database cannot be used: " in said
    assert "Traceback" not in said


def test_pages_without_a_database_say_so_in_a_few_lines(tmp_path: Path) -> None:
    port = free_port()
    own = Installation(tmp_path, f"postgresql://rita@127.0.0.1:{free_port()}/opsconsole")
    own.manage("collectstatic", "--no-input", "-v0")
    child = Program(
        [sys.executable, "manage.py", "serve", "--port", str(port)],
        cwd=ROOT,
        env=own.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )

    def answers() -> bool:
        http = HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            http.request("GET", "/runs/", headers={"Cookie": "sessionid=" + "a" * 32})
            return http.getresponse().status == 503
        except OSError:
            return False
        finally:
            http.close()

    try:
        until(answers)
        assert [answers() for _ in range(20)] == [True] * 20
    finally:
        child.terminate()
        _, said = child.communicate(timeout=LONGEST)

    assert child.returncode == 0
    assert said.count("The database cannot be used: ") == 1, said
    assert "Traceback" not in said
