"""The test command on a machine that has nothing but Python: README promises that it ends green."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import browsers
from tests.processes import ROOT

BROWSER_TEST = "tests/web/test_browser.py"


def run_suite(tmp_path: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a browser's test and a pure one where no program but Python is found."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("OPSCONSOLE_", "PLAYWRIGHT_"))}
    nothing = {
        "PATH": str(tmp_path),
        "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path),
        "PLAYWRIGHT_DOWNLOAD_HOST": "http://127.0.0.1:9",  # where nobody listens
    }
    return subprocess.run(
        [sys.executable, "-m", "tests.suite", BROWSER_TEST, "tests/core/test_money.py"],
        cwd=ROOT,
        env={**ours, **nothing, **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_without_a_browser_its_tests_are_left_out_and_the_last_lines_say_how_to_get_one(
    tmp_path: Path,
) -> None:
    ended = run_suite(tmp_path)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"Browser:    SKIPPED: {browsers.ADVICE}" in ended.stdout.splitlines()[-1]
    assert browsers.MISSING in ended.stdout.partition(BROWSER_TEST)[2]


@pytest.mark.slow
def test_a_browser_that_was_named_and_does_not_start_is_a_failure(tmp_path: Path) -> None:
    ended = run_suite(tmp_path, **{browsers.VARIABLE: str(tmp_path / "gone")})

    assert ended.returncode == 1
    assert "Browser:    FAILED" in ended.stdout
