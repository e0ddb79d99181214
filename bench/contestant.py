"""One contestant, one round, in a process of its own: prints what it measured as JSON."""

import argparse
import json
import resource
import time
from importlib import import_module
from statistics import median

from bench import databases, desk

CONTESTANTS = ("ours", "loop", "supervised", "graph", "floor")
WARM_UP, COUNTED = 3, 10  # runs that are not timed: to warm up, and to count what they write


def main() -> None:
    """Warm up, time, then count: counting keeps SQLite's log and would slow the timing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=CONTESTANTS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    given = parser.parse_args()
    desk.open_django(given.url)
    everyone = range(1, WARM_UP + given.runs + COUNTED + 1)
    contestant = import_module(f"bench.{given.name}").Contestant(given.url, everyone)
    contestant.run(everyone[:WARM_UP], at_once=1)
    cpu = time.process_time()
    timing = contestant.run(everyone[WARM_UP:-COUNTED], at_once=given.at_once)
    cpu = time.process_time() - cpu
    with databases.count_writes(given.url) as written:
        contestant.run(everyone[-COUNTED:], at_once=1)
    contestant.close(len(everyone))
    print(
        json.dumps(
            {
                "runs_per_second": given.runs / timing.seconds,
                "cpu_ms": cpu / given.runs * 1000,
                "commits": written[0].commits / COUNTED,
                "fsyncs": written[0].fsyncs / COUNTED,
                "kilobytes": written[0].bytes / COUNTED / 1000,
                **_spread("launch", timing.launch_to_step),
                **_spread("decision", timing.decision_to_step),
                "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
            }
        )
    )


def _spread(name: str, seconds: list[float]) -> dict[str, float]:
    """Return median and 95th percentile in milliseconds."""
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {f"{name}_p50": median(ordered) * 1000, f"{name}_p95": p95 * 1000}


if __name__ == "__main__":
    main()
