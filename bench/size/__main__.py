"""Time every page at the size asked for and at a hundredth of it, on SQLite and on PostgreSQL."""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from bench import databases
from bench.size.report import write_report

RUNS = 100_000  # as the page has them


def main() -> None:
    """Fill or take each database, measure its pages, and write the table of the document."""
    parser = argparse.ArgumentParser(prog="python -m bench.size", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="that ended")
    parser.add_argument("--waiting", type=int, default=2_000, help="requests that are open")
    parser.add_argument("--times", type=int, default=100, help="each run is copied by SQL")
    parser.add_argument("--only", default="", help="pages whose name holds this")
    parser.add_argument("--repeats", type=int, default=20, help="of each page's request")
    parser.add_argument(
        "--keep", type=Path, help="folder that keeps the databases; what it has is not filled again"
    )
    given = parser.parse_args()
    server = os.environ.get("OPSCONSOLE_BENCH_POSTGRES_URL")
    temporary = tempfile.TemporaryDirectory(prefix="opsconsole-size-")
    with nullcontext(given.keep) if given.keep else temporary as folder:
        found = []
        for vendor in ("sqlite", *(["postgresql"] if server else [])):
            for name, part in (("small", 100), ("large", 1)):
                size = (given.runs // part, given.waiting // part, max(1, given.times // part))
                home = Path(folder) / f"{vendor}-{name}"
                home.mkdir(parents=True, exist_ok=True)
                kept = given.keep and f"opsconsole_size_{name}"
                database = (
                    databases.postgres(server or "", kept=kept or "")
                    if vendor == "postgresql"
                    else databases.sqlite(home)
                )
                print(f"{vendor}, {name}", flush=True)
                with database as url:
                    _prepare(url, home, size)
                    _run(url, home, "-m", "bench.size.pages", given.only, str(given.repeats))
                found.append((home / "pages.json").read_text())
        is_whole = bool(server) and not given.only and given.runs >= RUNS
        sys.exit(write_report(found, is_whole=is_whole))


def _prepare(url: str, home: Path, size: tuple[int, ...]) -> None:
    """Fill a new database; bring one that was kept to this version's tables and sums."""
    begun, filled = home / "begun", home / "filled"
    if begun.exists() and not filled.exists():
        sys.exit(f"{home}: filling it was broken off; remove it and its database.")
    begun.touch()
    _run(url, home, "manage.py", "migrate", "--verbosity=0")
    _run(url, home, "manage.py", "collectstatic", "--noinput", "--verbosity=0")
    _run(url, home, "-m", "bench.size.fill", *([] if filled.exists() else map(str, size)))
    filled.touch()


def _run(url: str, home: Path, *command: str) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "bench.settings",
        "DATABASE_URL": url,
        "OPSCONSOLE_DATA_DIR": str(home.absolute()),
        "OPSCONSOLE_DISPATCH": "polling",
        "OPSCONSOLE_ENV_FILE": "",
        "OPSCONSOLE_DEMO": "1",
    }
    subprocess.run([sys.executable, *command], env=environment, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
