"""Count the instructions of a run and of an action: figures that do not depend on load.

It takes valgrind with its headers, a C compiler and SQLite; on Debian `apt install valgrind gcc`.
"""

import argparse
import atexit
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench import databases, desk
from bench.work import ADDED

WARM = 4  # runs before the measured ones
LIBRARY = "OPSCONSOLE_BENCH_CALLGRIND"  # where it is named, this process is the measured one
ACTION = "action"
ROWS = {
    "ours": "opsconsole",
    ACTION: "opsconsole, one automatic action of an external agent",
    "supervised": "LangGraph, supervised",
    "graph": "LangGraph",
    "loop": "plain loop with the console's work",
    **{f"loop-{number}": f"plain loop without {part}" for number, part in enumerate(ADDED)},
}


def main() -> None:
    """Count opsconsole, an action, the plain loop and its parts, and LangGraph."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=main.__doc__)
    parser.add_argument("names", nargs="*", help="only these, for instance ours action loop")
    parser.add_argument("--runs", type=int, default=6, help="measured runs of each")
    given = parser.parse_args()
    if LIBRARY in os.environ:
        measure(given.names[0], given.runs)
        return
    with tempfile.TemporaryDirectory(prefix="opsconsole-bench-") as folder:
        library = Path(folder) / "callgrind.so"
        source = Path(__file__).with_name("callgrind.c")
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)  # noqa: S603, S607
        print("| one run, SQLite | million instructions |\n|---|---:|", flush=True)
        for name in given.names or ROWS:
            counted = _count(name, given.runs, library)
            print(f"| {ROWS[name]} | {counted / given.runs / 1e6:.1f} |", flush=True)


def _count(name: str, runs: int, library: Path) -> int:
    """Return the instructions of the measured part in a process of its own."""
    with databases.sqlite() as url:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "bench.settings",
            "OPSCONSOLE_ENV_FILE": "",
            "DATABASE_URL": url,
            "PYTHONHASHSEED": "0",
        }
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
        subprocess.run(migrate, env=environment, check=True)  # noqa: S603 - our own program
        tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        kept = f"--callgrind-out-file={library.with_suffix('.out')}"
        program = [sys.executable, "-m", "bench.instructions", name, f"--runs={runs}"]
        done = subprocess.run(  # noqa: S603 - our own program
            [*tool, kept, *program],
            env={**environment, LIBRARY: str(library)},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return int(found[1])


def measure(name: str, runs: int) -> None:
    """Do the work of one row; callgrind counts what lies between its marks."""
    desk.open_django(os.environ["DATABASE_URL"])
    callgrind = ctypes.CDLL(os.environ[LIBRARY])
    work = _work(name, runs)
    callgrind.begin()
    work()
    callgrind.end()


def _work(name: str, runs: int) -> Callable[[], object]:
    """Return the measured work of a row, warmed up."""
    from agents.engine import journal
    from bench import graph, loop, ours, supervised
    from bench.action.__main__ import Sessions, web_process

    journal.SOON = 600.0  # valgrind is slow: a write that would go early by the clock waits
    url, everyone = os.environ["DATABASE_URL"], range(1, WARM + runs + 1)
    if name == ACTION:
        sessions, serving = Sessions(url, len(everyone)), ExitStack()
        serving.enter_context(web_process())
        atexit.register(serving.close)
        sessions.refund(WARM)
        return lambda: sessions.refund(runs)
    kinds = {"ours": ours, "supervised": supervised, "graph": graph, "loop": loop}
    if name in kinds:
        contestant = kinds[name].Contestant(url, everyone)
    else:
        parts = [part for part in ADDED if not ROWS[name].endswith(part)]
        contestant = loop.Contestant(url, everyone, parts)
    contestant.run(everyone[:WARM], at_once=1)
    return lambda: contestant.run(everyone[WARM:], at_once=1)


if __name__ == "__main__":
    main()
