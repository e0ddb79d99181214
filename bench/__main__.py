"""Let the contestants run in turns, round after round; print the medians, and keep whole ones."""

import argparse
import json
import os
import subprocess
import sys
from statistics import median

from bench import databases, page
from bench.contestant import CONTESTANTS

ROUNDS, RUNS = 3, 30  # the fewest that the page takes
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
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument(
        "--sync-ms", type=float, nargs="*", default=[0.0], help="as on a disk so much slower"
    )
    given = parser.parse_args()
    server = os.environ.get("OPSCONSOLE_BENCH_POSTGRES_URL", "")
    vendors = ["sqlite", *(["postgresql"] if server else [])]
    is_whole = len(vendors) == 2 and not given.only and given.at_once == 1
    is_whole &= given.rounds >= ROUNDS and given.runs >= RUNS
    print(f"A sync of SQLite's log takes {databases.measured_sync_ms():.2f} ms here.")
    for vendor in [each for each in vendors if given.only in (None, each)]:
        for sync_ms in given.sync_ms:
            figures = _measure(vendor, server, given, sync_ms)
            if is_whole:
                page.keep(vendor, figures)
    if is_whole:
        page.write()


def _measure(
    vendor: str, server: str, given: argparse.Namespace, sync_ms: float
) -> dict[str, float]:
    """Print the tables of a database whose syncs take so much longer. Return the page's figures."""
    is_file = vendor == "sqlite"
    place = databases.sqlite() if is_file else databases.postgres(server, sync_ms)
    with place as url, databases.slower_files(sync_ms if is_file else 0) as slower:
        print(
            f"\n{vendor}: medians of {given.rounds} rounds of {given.runs} runs,"
            f" {given.at_once} at once, each sync {sync_ms:g} ms longer\n"
        )
        medians = {
            name: {column: median(each[column] for each in rounds) for column in COLUMNS}
            for name, rounds in _rounds(url, given, slower).items()
        }
        _print(COLUMNS, medians)
        if sync_ms:
            return {f"sync.{sync_ms:g}.{n}": each["runs_per_second"] for n, each in medians.items()}
        print("\nOne action that nobody has to decide\n")
        action = _ask({**_at(url), **slower}, "-m", "bench.action")
        _print(OF_ACTION, {"ours": action})
    found = {"action.per_second": action["actions_per_second"]}
    for name, each in medians.items():
        found |= {f"run.{name}.{one}": each[one] for one in (*page.OF_RUN, "commits")}
    return found


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


def _print(columns: dict[str, str], found: dict[str, dict[str, float]]) -> None:
    """Print a table in Markdown."""
    print("| |", " | ".join(columns.values()), "|")
    print("|---|", "---:|" * len(columns), sep="")
    for name, values in found.items():
        shown = " | ".join(f"{values[column]:.1f}" for column in columns)
        print(f"| {page.CONTESTANTS[name]} | {shown} |")


if __name__ == "__main__":
    main()
