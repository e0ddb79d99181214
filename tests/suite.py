"""Run the tests on SQLite and then, where a server answers, their PostgreSQL part on that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from tests import postgres

NO_TESTS = 5  # pytest's exit code when nothing was selected


def main(arguments: Sequence[str]) -> int:
    """Return 0 when everything that could run has passed; the last lines say what did not run."""
    code, on_sqlite = run(arguments, on="sqlite")
    refusal = postgres.refusal()
    if not refusal:
        other, on_postgres = run(["-m", "postgres or both", *arguments], on="postgres")
        is_empty_choice = bool(arguments) and other == NO_TESTS
        code = code or (0 if is_empty_choice else other)
    elif postgres.is_expected():
        code, on_postgres = code or 1, f"FAILED: {postgres.VARIABLE} does not answer: {refusal}"
    else:
        on_postgres = (
            "SKIPPED: its races, crashes and contracts. No server answers at "
            f"{postgres.DEFAULT_URL}; {postgres.VARIABLE} may name one."
        )
    print(f"\nSQLite:     {on_sqlite}\nPostgreSQL: {on_postgres}", flush=True)
    return code


def run(arguments: Sequence[str], *, on: str) -> tuple[int, str]:
    """Run pytest on a database. Return its exit code and the last line it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
        env={**os.environ, "OPSCONSOLE_TEST_ON": on},
        stdout=subprocess.PIPE,
        text=True,
    )
    last = ""
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip(" =\n") or last
    return process.wait(), last


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
