"""Run the tests on SQLite, then their PostgreSQL part where a server answers.

A whole pass also runs what is about no other desk where the bank alone is installed.

A browser is fetched where none is found; what cannot be had is left out, and the last lines say so.
One pass follows another: side by side they slow each other until tests that wait give up. A whole
pass is shared out to several processes, each with a database of its own; a part is not worth the
start of more. Only the checks, one process, run beside the first pass.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO

from tests import browsers, postgres

CHECK = "--check"  # beside the tests, types and the like
CHECKS = ("make", "--no-print-directory", "types")
PART = ("-m", "postgres or both")  # of the tests, for PostgreSQL
# What finds something of its own where the bank is the only desk; it needs no other.
BANK_ALONE = ("tests/desks/test_bank_alone.py", "tests/desks/test_patterns.py")
NO_TESTS = 5  # pytest's exit code when nothing was selected
WHOLE = ((), PART, BANK_ALONE)
# Tests wait for processes, browsers and leases: there are more of them under way than cores.
# The shares and their order are those of tests/conftest.py: what takes long begins first.
SHARED_OUT = ("-n", str((os.cpu_count() or 1) + 2), "--no-loadscope-reorder")


def main(arguments: Sequence[str]) -> int:
    """Return 0 when everything that could run has passed; the last lines say what did not run."""
    browser = browsers.find() or browsers.fetch()
    part = [one for one in arguments if one != CHECK]
    with tempfile.TemporaryFile("w+") as said:
        checks = start(CHECKS, output=said) if CHECK in arguments else None
        on_bank, code = ("", 0) if part else run(BANK_ALONE, on="sqlite", desks="bank")
        on_sqlite, other = run(part, on="sqlite")
        on_checks = checks.wait() if checks else 0
        said.seek(0)
        print_lines(said)
    code = code or other or on_checks
    refusal = postgres.refusal()
    if not refusal:
        on_postgres, other = run([*PART, *part], on="postgres")
        is_empty_choice = bool(part) and other == NO_TESTS
        code = code or (0 if is_empty_choice else other)
    elif postgres.is_expected():
        on_postgres = f"FAILED: {postgres.VARIABLE} does not answer: {refusal}"
        code = code or 1
    else:
        on_postgres = (
            "SKIPPED: its races, crashes and contracts. No server answers at "
            f"{postgres.DEFAULT_URL}; {postgres.VARIABLE} may name one, "
            "and on Debian .ci/run installs and starts one."
        )
    if checks:
        print(f"\nChecks:     {'FAILED: see above' if on_checks else 'passed'}", end="")
    print(f"\nSQLite:     {on_sqlite}\nPostgreSQL: {on_postgres}", flush=True)
    if on_bank:
        print(f"Bank alone: {on_bank}", flush=True)
    if not browser:
        is_expected = bool(os.environ.get(browsers.VARIABLE))
        print(
            f"Browser:    {'FAILED' if is_expected else 'SKIPPED'}: {browsers.ADVICE}", flush=True
        )
        code = code or int(is_expected)
    return code


def run(arguments: Sequence[str], *, on: str, desks: str = "") -> tuple[str, int]:
    """Run pytest on a database, shared out unless a part was asked for.

    Return the line that sums it up, and the exit code.
    """
    shares = SHARED_OUT if tuple(arguments) in WHOLE else ()
    # -u: else the first lines are kept back for minutes, and it seems to stand still.
    command = [sys.executable, "-u", "-m", "pytest", *shares, *arguments]
    process = start(command, output=subprocess.PIPE, on=on, desks=desks)
    assert process.stdout is not None
    last = print_lines(process.stdout)
    return verdict(last, process.wait()), process.returncode


def start(
    command: Sequence[str], *, output: IO[str] | int, on: str = "", desks: str = ""
) -> subprocess.Popen[str]:
    """Start a program; where it is pytest, `on` a database and with these desks, or all."""
    env = {**os.environ, "OPSCONSOLE_TEST_ON": on, "OPSCONSOLE_TEST_DESKS": desks}
    return subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT, text=True)


def verdict(said: str, code: int) -> str:
    """Return a pass's last line, which must not sound like success where it failed.

    Every test of a whole run may have passed while a proof or a crash point was left out.
    """
    return said if not code or "failed" in said else f"FAILED, see above: {said}"


def print_lines(lines: Iterable[str]) -> str:
    """Print what pytest says. Return its last line, the sum."""
    last = ""
    for line in lines:
        print(line, end="", flush=True)
        last = line.strip(" =\n") or last
    return last


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
