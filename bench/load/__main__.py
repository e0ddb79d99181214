"""Run every program on SQLite, and on PostgreSQL where OPSCONSOLE_BENCH_POSTGRES_URL names one."""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager

from bench import databases, page

PROGRAMS = ("waits", "paused", "decisions", "people", "viewers", "crowd", "agents", "trial")
QUEUED = ("decisions", "people", "viewers", "crowd")  # which PostgreSQL's own queue serves


def main() -> None:
    """Print the tables of the programs that are named, or of all, and keep their figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument(
        "programs", nargs="*", metavar="program", choices=[*PROGRAMS, []], default=[]
    )
    wanted = parser.parse_args().programs or PROGRAMS
    server = os.environ.get("OPSCONSOLE_BENCH_POSTGRES_URL")
    for name in wanted:
        _run(name, databases.sqlite(), "polling")
        if server:
            _run(name, databases.postgres(server), "procrastinate" if name in QUEUED else "polling")
    page.write()


def _run(name: str, place: AbstractContextManager[str], dispatch: str) -> None:
    """Run one program on a database of its own."""
    with place as url, tempfile.TemporaryDirectory(prefix="opsconsole-load-") as directory:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "bench.settings",
            "DATABASE_URL": url,
            "OPSCONSOLE_DATA_DIR": directory,
            "OPSCONSOLE_DISPATCH": dispatch,
            "OPSCONSOLE_ENV_FILE": "",
            page.KEEP: "1",
        }
        how = [f"--dispatch={dispatch}"] if name != "paused" else []
        for command in (
            ["manage.py", "migrate", "--verbosity=0"],
            ["-m", f"bench.load.{name}", *how],
        ):
            subprocess.run([sys.executable, *command], env=environment, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
