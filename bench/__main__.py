"""Let the contestants run in turns, round after round, and print the medians."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from statistics import median

from bench import databases
from bench.contestant import CONTESTANTS

TITLES = {
    "ours": "opsconsole",
    "loop": "plain loop",
    "supervised": "LangGraph, supervised",
    "graph": "LangGraph",
    "floor": "bare driver",
}
COLUMNS = {
    "runs_per_second": "runs/s",
    "cpu_ms": "CPU ms",
    "commits": "commits",
    "fsyncs": "fsyncs",
    "kilobytes": "KB",
    "launch_p50": "launch p50",
    "launch_p95": "p95",
    "decision_p50": "decision p50",
    "decision_p95": "p95",
    "megabytes": "MB",
}
OF_ACTION = {
    "actions_per_second": "actions/s",
    "cpu_ms": "CPU ms",
    "statements": "statements",
    "trips": "sent",
    "commits": "commits",
    "kilobytes": "KB",
}


def main() -> None:
    """Measure on SQLite, and on PostgreSQL where OPSCONSOLE_BENCH_POSTGRES_URL names a server."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=60, help="of each contestant in each round")
    parser.add_argument("--at-once", type=int, default=1, help="runs side by side")
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--sync-ms", type=float, default=0, help="as on a disk so much slower")
    given = parser.parse_args()
    places: dict[str, AbstractContextManager[str]] = {"sqlite": databases.sqlite()}
    server = os.environ.get("OPSCONSOLE_BENCH_POSTGRES_URL")
    if server:
        places["postgres"] = databases.postgres(server, given.sync_ms)
    print(f"A sync of SQLite's log takes {databases.measured_sync_ms():.2f} ms here.")
    for name, place in places.items():
        if given.only in (None, name):
            sync_ms = given.sync_ms if name == "sqlite" else 0
            with place as url, databases.slower_files(sync_ms) as slower:
                print(
                    f"\n{name}: medians of {given.rounds} rounds of {given.runs} runs,"
                    f" {given.at_once} at once, each sync {given.sync_ms:g} ms longer\n"
                )
                _print(COLUMNS, _rounds(url, given, slower))
                print("\nOne action that nobody has to decide\n")
                _print(OF_ACTION, {"ours": [_ask({**_at(url), **slower}, "-m", "bench.action")]})


def _rounds(
    url: str, given: argparse.Namespace, slower: dict[str, str]
) -> dict[str, list[dict[str, float]]]:
    """Give each contestant a process a round; who begins changes with the round."""
    migrate = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
    subprocess.run(migrate, env=_at(url), check=True)  # noqa: S603 - our own program
    timed = {**os.environ, **slower}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
    for number in range(given.rounds):
        turn = number % len(CONTESTANTS)
        for name in CONTESTANTS[turn:] + CONTESTANTS[:turn]:
            how = (f"--url={url}", f"--runs={given.runs}", f"--at-once={given.at_once}")
            found[name].append(_ask(timed, "-m", "bench.contestant", name, *how))
    return found


def _at(url: str) -> dict[str, str]:
    """Return the environment of a process of ours on this database."""
    ours = {"DJANGO_SETTINGS_MODULE": "bench.settings", "OPSCONSOLE_ENV_FILE": ""}
    return {**os.environ, **ours, "DATABASE_URL": url}


def _ask(environment: dict[str, str], *command: str) -> dict[str, float]:
    """Return what a program of ours measured."""
    whole = [sys.executable, *command]
    said = subprocess.run(whole, stdout=subprocess.PIPE, check=True, env=environment)  # noqa: S603
    measured: dict[str, float] = json.loads(said.stdout)
    return measured


def _print(columns: dict[str, str], found: dict[str, list[dict[str, float]]]) -> None:
    """Print a table in Markdown."""
    print("| |", " | ".join(columns.values()), "|")
    print("|---|", "---:|" * len(columns), sep="")
    for name, rounds in found.items():
        medians = (median(each[column] for each in rounds) for column in columns)
        print(f"| {TITLES[name]} |", " | ".join(f"{value:.1f}" for value in medians), "|")


if __name__ == "__main__":
    main()
