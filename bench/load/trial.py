"""A draft tried on many stored rulings: what its process takes, and what runs beside it lose."""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from statistics import median

from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from agents.models import DraftTrial, Step, Workspace
from agents.publishing.drafts import begin_draft
from agents.publishing.trials import ask_trial, cancel_trial
from bench.load import processes
from bench.load.waits import measure_runs
from bench.size.fill import fill

SHARE = 3  # rulings of the first workspace for each run of the database
COPIES = 100
PAIRS, BESIDE = 5, 40  # measured, of runs each


def main() -> None:
    """Print processor time and peak memory of a trial, and how long runs take without and with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rulings", type=int, default=100_000)
    parser.add_argument("--dispatch", default="polling")
    given = parser.parse_args()
    fill(given.rulings // SHARE, 20, max(1, min(COPIES, given.rulings // 1000)))
    ada = User.objects.get(username="ada")
    workspace = Workspace.objects.select_related("policy").get(slug="w00")
    assert workspace.policy  # noqa: S101 - it was published
    document = deepcopy(workspace.policy.document)  # a cap concerns every ruling
    document["desks"]["refunds"]["caps"]["USD"]["launcher_daily_minor"] //= 2
    draft = begin_draft(workspace=workspace, by=ada, at=timezone.now(), document=document)

    def begin() -> tuple[DraftTrial, subprocess.Popen[bytes]]:
        ask_trial(draft, by=ada, days=90, at=timezone.now())
        taken = DraftTrial.take()
        assert taken  # noqa: S101 - it was asked for
        command = [sys.executable, "manage.py", "try_draft", str(taken.pk)]
        return taken, subprocess.Popen(command)  # noqa: S603 - our own program

    @contextmanager
    def beside() -> Iterator[None]:
        trial, process = begin()
        processes.until(lambda: trial.mine.filter(done__gt=0).exists())
        yield
        if not trial.mine.exists():
            raise SystemExit("The trial ended before the runs: take more rulings.")
        cancel_trial(trial, by=ada, at=timezone.now())
        process.wait()

    trial, process = begin()
    most = 0.0
    while process.poll() is None:
        with suppress(StopIteration):  # it has just ended
            most = processes.megabytes(process.pid, "VmHWM")
        time.sleep(0.1)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # no other has ended
    trial.refresh_from_db()
    told = trial.outcome or {}
    print(f"\nA trial of {told['rulings']:,} rulings of {told['runs']:,} runs, {connection.vendor}")
    print(f"{Step.objects.filter(kind='review').count():,} are stored; load {os.getloadavg()}\n")
    print(f"processor time {used.ru_utime + used.ru_stime:.1f} s; 60 s for 100,000 is the aim")
    print(f"memory at most {most:.0f} MiB; 150 MiB is the aim\n")
    print(f"| {BESIDE} runs | alone | beside a trial | load |\n|---|---:|---:|---:|")
    shares = []
    for number in range(PAIRS):
        alone, _ = measure_runs(BESIDE, 0, given.dispatch, at_once=1)
        with beside():
            both, _ = measure_runs(BESIDE, 0, given.dispatch, at_once=1)
        shares.append(both / alone)
        print(f"| {number + 1} | {alone:.2f} s | {both:.2f} s | {os.getloadavg()[0]:.1f} |")
    print(f"\nThe median is {median(shares):.2f} times as long; 1.1 is the aim.")


if __name__ == "__main__":
    main()
