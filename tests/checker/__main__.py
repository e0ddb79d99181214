"""Check a database of SQLite from the command line; code 1 where something does not hold."""

import sqlite3
import sys
from contextlib import closing

from tests.checker import violations


def main(path: str) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        found = violations(database.cursor())
    for violation in found:
        print(f"{violation.id}: {violation.where}")
    print(f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
