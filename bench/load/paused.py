"""Runs that wait for people: what they cost a worker that has nothing to do."""

import argparse
import time
import uuid
from statistics import median
from typing import Any, TypeVar

from django.db import connection, models
from django.utils import timezone

from agents.core.requests import RunState
from agents.engine.upkeep.sweep import sweep
from agents.models import Escalation, Event, Run, Step
from bench import page
from bench.load import processes
from bench.load.scene import Scene

M = TypeVar("M", bound=models.Model)
BATCH = 500
SETTLED = 12.0  # seconds after which a worker has swept a few times


def main() -> None:
    """Print a worker's memory and the time of a sweep, without and with paused runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    given = parser.parse_args()
    print(f"\nRuns that wait for a person, {connection.vendor}\n")
    print("| paused | worker's memory | its processor, idle | sweep p50 | p95 |")
    print("|---:|---:|---:|---:|---:|")
    run = _pause_run(Scene(1))
    _print(1)
    _multiply_run(run, given.runs - 1)
    if connection.vendor == "postgresql":  # which would do it itself, in a minute
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    page.keep_whole(connection.vendor, {"paused.sweep_p95": _print(given.runs)})


def _print(count: int) -> float:
    """Print the row of so many paused runs. Return the 95th percentile of a sweep, in ms."""
    waiting = Run.objects.filter(state=RunState.WAITING).count()
    if waiting != count:
        raise SystemExit(f"{waiting} runs wait, not {count}")
    with processes.worker("http://127.0.0.1:9/v1") as worker:
        time.sleep(SETTLED)
        used = processes.cpu_seconds(worker.pid)
        time.sleep(SETTLED)
        used = (processes.cpu_seconds(worker.pid) - used) / SETTLED
        megabytes = processes.megabytes(worker.pid)
    sweeps = [_swept() for _ in range(60)]
    p50, p95 = median(sweeps) * 1000, processes.percentile(sweeps, 0.95) * 1000
    print(f"| {count} | {megabytes:.0f} MB | {used:.1%} | {p50:.1f} ms | {p95:.1f} ms |")
    return p95


def _swept() -> float:
    """Return the seconds of a sweep that finds nothing to put right."""
    started = time.perf_counter()
    if sweep():
        raise SystemExit("a paused run was put right")
    return time.perf_counter() - started


def _pause_run(scene: Scene) -> Run:
    """Take one run to its person, as a real worker does."""
    run = scene.launch(1)
    with processes.model() as address, processes.worker(address):
        here = Run.objects.filter(pk=run.pk, state=RunState.WAITING)
        processes.until(here.exists)
    return Run.objects.get(pk=run.pk)


def _multiply_run(run: Run, count: int) -> None:
    """Add paused runs like this one, row by row: to drive them all would measure nothing more."""
    steps = list(run.steps.order_by("position"))
    held = Escalation.objects.get(run=run)
    events = list(run.events.order_by("seq"))
    for first in range(0, count, BATCH):
        many = range(min(BATCH, count - first))
        at = timezone.now()
        runs = Run.objects.bulk_create(_like(run, id=uuid.uuid4(), created_at=at) for _ in many)
        made = Step.objects.bulk_create(_like(s, run=new) for new in runs for s in steps)
        last = [s for s in made if s.key == held.step.key]
        Escalation.objects.bulk_create(_like(held, run=s.run, step=s) for s in last)
        Event.objects.bulk_create(_like(e, run=new) for new in runs for e in events)


def _like(row: M, **changed: Any) -> M:
    """Return a row that is not yet stored, with the same columns but those that are given."""
    fields = [f for f in row._meta.fields if not (f.primary_key or f.name in changed)]
    return type(row)(**{f.attname: getattr(row, f.attname) for f in fields} | changed)


if __name__ == "__main__":
    main()
