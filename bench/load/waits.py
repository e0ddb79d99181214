"""Runs that all wait for the same slow model at once in one worker, and runs of two workers."""

import argparse
from contextlib import ExitStack
from statistics import median

from django.db import connection

from agents.core.requests import ENDED
from agents.models import Event, Run
from bench import page
from bench.load import processes
from bench.load.scene import Scene


def main() -> None:
    """Print how long runs take with an instant model and a slow one, and beside another worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--wait", type=float, default=5.0, help="seconds")
    parser.add_argument("--dispatch", default="polling")
    given = parser.parse_args()
    print(f"\n{given.runs} runs at once in one worker, {connection.vendor}, {given.dispatch}\n")
    print("| model | first claim to last end | the same, less its wait | memory at most |")
    print("|---|---:|---:|---:|")
    instant = 0.0
    for wait in (0.0, given.wait):
        seconds, megabytes = measure_runs(given.runs, wait, given.dispatch, at_once=1000)
        name = f"waits {wait:g} s" if wait else "instant"
        print(f"| {name} | {seconds:.1f} s | {seconds - wait:.1f} s | {megabytes:.0f} MB |")
        instant = instant or seconds
    print(f"\nThe wait adds {seconds - instant:.1f} s; at most 10 s is the aim.")
    found = {"waits.instant": instant, "waits.added": seconds - instant}
    if connection.vendor == "postgresql":
        print("\n| workers, eight runs at once each | runs/s |\n|---|---:|")
        took: dict[int, list[float]] = {1: [], 2: []}
        for workers in (1, 2) * 3:
            how_long, _ = measure_runs(given.runs, 0, given.dispatch, at_once=8, workers=workers)
            print(f"| {workers} | {given.runs / how_long:.1f} |", flush=True)
            took[workers].append(how_long)
        found["waits.two_workers"] = median(took[1]) / median(took[2])
    page.keep_whole(connection.vendor, found)


def measure_runs(
    count: int, wait: float, dispatch: str, *, at_once: int, workers: int = 1
) -> tuple[float, float]:
    """Return the seconds that the runs took by their own record, and the first worker's memory."""
    scene = Scene(count)
    runs = [
        scene.launch(number, f"Customer {number} asks what was paid.").pk
        for number in range(1, count + 1)
    ]
    ours = Run.objects.filter(workspace=scene.workspace)
    how = {"OPSCONSOLE_WORKER_CONCURRENCY": str(at_once), "OPSCONSOLE_DISPATCH": dispatch}
    with processes.model(wait) as address, ExitStack() as stack:
        worker, *_ = [stack.enter_context(processes.worker(address, **how)) for _ in range(workers)]
        processes.until(lambda: not ours.exclude(state__in=ENDED).exists())
        megabytes = processes.megabytes(worker.pid, "VmHWM")
    reasons = set(ours.values_list("stop_reason", flat=True))
    if reasons != {"success"}:
        raise SystemExit(f"the runs ended with {reasons}")
    claims = Event.objects.filter(run__in=runs[:count], kind="run.claimed").order_by("at")
    if claims.count() != count:
        print(f"(claimed {claims.count()} times)")
    first = claims.values_list("at", flat=True)[0]
    last = ours.order_by("-ended_at").values_list("ended_at", flat=True)[0]
    assert last  # noqa: S101 - all have ended
    return (last - first).total_seconds(), megabytes


if __name__ == "__main__":
    main()
