"""Programs that run as one: real processes under a parent that gets the signal."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agents.management.processes import GRACE

TOGETHER = """
import sys
from agents.management.processes import Program, run_together
run_together([Program(name, [sys.executable, "-c", code]) for name, code in PROGRAMS])
print("all ended")
"""
STAYS = "import time; print('here', flush=True); time.sleep(60)"
IS_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + STAYS
FALLS = "raise SystemExit(3)"


@contextmanager
def together(**programs: str) -> Iterator[subprocess.Popen[str]]:
    """Run programs, given by their Python code, until the block ends."""
    code = f"PROGRAMS = {list(programs.items())!r}\n{TOGETHER}"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_all_programs(number: signal.Signals) -> None:
    with together(web=STAYS, worker=STAYS) as process:
        assert {line(process), line(process)} == {"web    | here", "worker | here"}

        process.send_signal(number)
        output, _ = process.communicate(timeout=60)

    assert output == "all ended\n"
    assert process.returncode == 0


@pytest.mark.slow
def test_deaf_program_is_ended_within_five_seconds() -> None:
    with together(web=IS_DEAF) as process:
        assert line(process) == "web    | here"

        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)

    assert output == "all ended\n"
    assert GRACE < 5


def test_failing_program_ends_the_others() -> None:
    with together(web=STAYS, worker=FALLS) as process:
        output, _ = process.communicate(timeout=60)

    assert "worker | ended with 3, so everything ends" in output
    assert output.endswith("all ended\n")
