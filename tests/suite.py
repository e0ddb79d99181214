"""Run the tests on SQLite and, where a server answers, their PostgreSQL part on that beside it.

A browser is fetched where none is found; what cannot be had is left out, and the last lines say so.
What PostgreSQL's pass prints comes when SQLite's has ended. A whole pass on SQLite is shared out
to a process a core; a part is not worth the start of more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO

from tests import browsers, postgres

NO_TESTS = 5  # pytest's exit code when nothing was selected
SHARED_OUT = ("-n", str(os.cpu_count() or 1), "--dist", "loadgroup")  # groups: tests/conftest.py


def main(arguments: Sequence[str]) -> int:
    """Return 0 when everything that could run has passed; the last lines say what did not run."""
    browser = browsers.find() or browsers.fetch()
    refusal = postgres.refusal()
    with tempfile.TemporaryFile("w+") as kept:
        if not refusal:
            beside = start(["-m", "postgres or both", *arguments], on="postgres", output=kept)
        sqlite = start(arguments or SHARED_OUT, on="sqlite", output=subprocess.PIPE)
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


def start(arguments: Sequence[str], *, on: str, output: IO[str] | int) -> subprocess.Popen[str]:
    """Start pytest on a database."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
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
