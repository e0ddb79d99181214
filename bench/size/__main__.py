"""Time every page at the size asked for and at a hundredth of it, on SQLite and on PostgreSQL."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import databases
from bench.size.report import write_report


def main() -> None:
    """Make each database, measure its pages, and write the table of docs/benchmarks-size.md."""
    parser = argparse.ArgumentParser(prog="python -m bench.size", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000, help="that ended")
    parser.add_argument("--waiting", type=int, default=2_000, help="requests that are open")
    parser.add_argument("--times", type=int, default=100, help="each run is copied by SQL")
    parser.add_argument("--only", default="", help="pages whose name holds this")
    given = parser.parse_args()
    server = os.environ.get("OPSCONSOLE_BENCH_POSTGRES_URL")
    with tempfile.TemporaryDirectory(prefix="opsconsole-size-") as directory:
        for part in (100, 1):
            size = (given.runs // part, given.waiting // part, max(1, given.times // part))
            for place in [databases.sqlite(), *([databases.postgres(server)] if server else [])]:
                with place as url:
                    out = Path(directory) / f"{url.partition(':')[0]}-{part}.json"
                    _measure(url, Path(directory), size, out, given.only)
        files = sorted(Path(directory).glob("*.json"))
        sys.exit(write_report([out.read_text() for out in files], is_whole=not given.only))


def _measure(url: str, directory: Path, size: tuple[int, ...], out: Path, only: str) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "bench.settings",
        "DATABASE_URL": url,
        "OPSCONSOLE_DATA_DIR": str(directory),
        "OPSCONSOLE_DISPATCH": "polling",
        "OPSCONSOLE_ENV_FILE": "",
        "OPSCONSOLE_DEMO": "1",
    }
    for command in (
        ["manage.py", "migrate", "--verbosity=0"],
        ["manage.py", "collectstatic", "--noinput", "--verbosity=0"],
        ["-m", "bench.size.fill", *map(str, size)],
        ["-m", "bench.size.pages", str(out), only],
    ):
        subprocess.run([sys.executable, *command], env=environment, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
