"""Run the tests on SQLite and, where a server answers, their PostgreSQL part on that beside it.

A whole pass also runs what is about no other desk where the bank alone is installed.

A browser is fetched where none is found; what cannot be had is left out, and the last lines say so.
What PostgreSQL's pass and the checks print comes when SQLite's has ended. A whole pass is shared
out to several processes, each with a database of its own; a part is not worth the start of more.
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
CORES = os.cpu_count() or 1
# Tests wait for processes, browsers and leases: there are more of them under way than cores.
PROCESSES = {"sqlite": CORES + 2, "postgres": CORES + 1}
# The shares and their order are those of tests/conftest.py: what takes long begins first.
SHARED_OUT = ("--no-loadscope-reorder",)


class Beside:
    """A program that runs beside SQLite's pass; what it prints is kept until that has ended."""

    def __init__(self, command: Sequence[str], on: str = "", desks: str = "") -> None:
        self._kept = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `end` closes it
        self._process = start(command, on=on, desks=desks, output=self._kept)

    def end(self) -> tuple[str, int]:
        """Print the stored output. Return its last line, and the exit code."""
        code = self._process.wait()
        with self._kept:
            self._kept.seek(0)
            return verdict(print_lines(self._kept), code), code


def main(arguments: Sequence[str]) -> int:
    """Return 0 when everything that could run has passed; the last lines say what did not run."""
    checks = Beside(CHECKS) if CHECK in arguments else None
    arguments = [one for one in arguments if one != CHECK]
    browser = browsers.find() or browsers.fetch()
    refusal = postgres.refusal()
    beside = None if refusal else Beside(tests_on("postgres", arguments), on="postgres")
    bank = [sys.executable, "-m", "pytest", *BANK_ALONE]
    alone = None if arguments else Beside(bank, on="sqlite", desks="bank")
    sqlite = start(tests_on("sqlite", arguments), on="sqlite", output=subprocess.PIPE)
    assert sqlite.stdout is not None
    said, code = print_lines(sqlite.stdout), sqlite.wait()
    on_sqlite = verdict(said, code)
    if alone:
        on_bank, other = alone.end()
        code = code or other
    if beside:
        on_postgres, other = beside.end()
        is_empty_choice = bool(arguments) and other == NO_TESTS
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
        _, other = checks.end()
        print(f"\nChecks:     {'FAILED: see above' if other else 'passed'}", end="")
        code = code or other
    print(f"\nSQLite:     {on_sqlite}\nPostgreSQL: {on_postgres}", flush=True)
    if alone:
        print(f"Bank alone: {on_bank}", flush=True)
    if not browser:
        is_expected = bool(os.environ.get(browsers.VARIABLE))
        print(
            f"Browser:    {'FAILED' if is_expected else 'SKIPPED'}: {browsers.ADVICE}", flush=True
        )
        code = code or int(is_expected)
    return code


def tests_on(database: str, arguments: Sequence[str]) -> list[str]:
    """Return pytest's command for a database, shared out where no part was asked for."""
    chosen = PART if database == "postgres" else ()
    shares = () if arguments else ("-n", str(PROCESSES[database]), *SHARED_OUT)
    # -u: else the first lines are kept back for minutes, and it seems to stand still.
    return [sys.executable, "-u", "-m", "pytest", *chosen, *shares, *arguments]


def start(
    command: Sequence[str], *, on: str, output: IO[str] | int, desks: str = ""
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
