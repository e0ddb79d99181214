"""README's test command passes on a machine with nothing but Python and make."""

import os
import re
import subprocess
from pathlib import Path
from shutil import which

import pytest

from tests import browsers, postgres, suite
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
def test_missing_browser_skips_tests_with_advice(
    tmp_path: Path,
) -> None:
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
