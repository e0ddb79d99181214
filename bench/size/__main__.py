"""Time every page at the size asked for, on SQLite, and on PostgreSQL where one is named."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

from bench import databases


def main() -> None:
    """Make a database of a size, and print what its pages take."""
    parser = argparse.ArgumentParser(prog="python -m bench.size", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000, help="that ended")
    parser.add_argument("--waiting", type=int, default=2_000, help="requests that are open")
    parser.add_argument("--times", type=int, default=100, help="each run is copied by SQL")
    parser.add_argument("--only", default="", help="pages whose name holds this")
    given = parser.parse_args()
    server = os.environ.get("OPSCONSOLE_BENCH_POSTGRES_URL")
    for place in [databases.sqlite(), *([databases.postgres(server)] if server else [])]:
        with place as url, tempfile.TemporaryDirectory(prefix="opsconsole-size-") as directory:
            environment = {
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "bench.settings",
                "DATABASE_URL": url,
                "OPSCONSOLE_DATA_DIR": directory,
                "OPSCONSOLE_DISPATCH": "polling",
                "OPSCONSOLE_ENV_FILE": "",
                "OPSCONSOLE_DEMO": "1",
            }
            size = (given.runs, given.waiting, given.times)
            for command in (
                ["manage.py", "migrate", "--verbosity=0"],
                ["manage.py", "collectstatic", "--noinput", "--verbosity=0"],
                ["-m", "bench.size.fill", *map(str, size)],
                ["-m", "bench.size.pages", given.only],
            ):
                subprocess.run([sys.executable, *command], env=environment, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
