"""Run the tests on SQLite and, where a server answers, their PostgreSQL part on that beside it.

A browser is fetched where none is found; what cannot be had is left out, and the last lines say so.
What PostgreSQL's pass prints comes when SQLite's has ended. A whole pass is shared out to several
processes, each with a database of its own; a part is not worth the start of more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO

from tests import browsers, postgres

PART = ("-m", "postgres or both")  # of the tests, for PostgreSQL
NO_TESTS = 5  # pytest's exit code when nothing was selected
CORES = os.cpu_count() or 1
# Tests wait for processes, browsers and leases: there are more of them under way than cores.
PROCESSES = {"sqlite": CORES + 1, "postgres": CORES}
# Groups and their order are those of tests/conftest.py: what takes long begins first.
SHARED_OUT = ("--dist", "loadgroup", "--no-loadscope-reorder")


def main(arguments: Sequence[str]) -> int:
    """Return 0 when everything that could run has passed; the last lines say what did not run."""
    browser = browsers.find() or browsers.fetch()
    refusal = postgres.refusal()
    with tempfile.TemporaryFile("w+") as kept:
        if not refusal:
            beside = start(arguments, on="postgres", output=kept, chosen=PART)
        sqlite = start(arguments, on="sqlite", output=subprocess.PIPE)
        assert sqlite.stdout is not None
        on_sqlite, code = print_lines(sqlite.stdout), sqlite.wait()
        if not refusal:
            other = beside.wait()
            kept.seek(0)
            on_postgres = print_lines(kept)
            is_empty_choice = bool(arguments) and other == NO_TESTS
            code = code or (0 if is_empty_choice else other)
        elif postgres.is_expected():
            on_postgres = f"FAILED: {postgres.VARIABLE} does not answer: {refusal}"
            code = code or 1
        else:
            on_postgres = (
                "SKIPPED: its races, crashes and contracts. No server answers at "
                f"{postgres.DEFAULT_URL}; {postgres.VARIABLE} may name one."
            )
    print(f"\nSQLite:     {on_sqlite}\nPostgreSQL: {on_postgres}", flush=True)
    if not browser:
        is_expected = bool(os.environ.get(browsers.VARIABLE))
        print(
            f"Browser:    {'FAILED' if is_expected else 'SKIPPED'}: {browsers.ADVICE}", flush=True
        )
        code = code or int(is_expected)
    return code


def start(
    arguments: Sequence[str], *, on: str, output: IO[str] | int, chosen: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start pytest on a database, shared out where no part of the tests was asked for."""
    shares = () if arguments else ("-n", str(PROCESSES[on]), *SHARED_OUT)
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *chosen, *shares, *arguments],
        env={**os.environ, "OPSCONSOLE_TEST_ON": on},
        stdout=output,
        text=True,
    )


def print_lines(lines: Iterable[str]) -> str:
    """Print what pytest says. Return its last line, the sum."""
    last = ""
    for line in lines:
        print(line, end="", flush=True)
        last = line.strip(" =\n") or last
    return last


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
