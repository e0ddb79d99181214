"""Fill a demo workspace with a fortnight of runs and some open requests.

Each case is driven once by the real engine with the demo model, in another process, and decided by
the operation that pages use. Copies differ in name, number and time, and take as long as models
and people would.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import random
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from agents.core.decisions import Decision
from agents.engine.turns.advance import run_once
from agents.history.copying import Clock, Copy, Original, kept_rows, read_original, write_copies
from agents.llm import is_demo
from agents.models import Escalation, Run, Step, Workspace
from agents.requests import deciding
from agents.runs import launching
from agents.sdk.demo import Past, PastCase
from agents.sdk.desk import DESKS
from agents.shell import refusal

_DAYS = 14
BEFORE_HISTORY = timedelta(days=_DAYS + 1)  # the least age of its workspace
RUNS_A_DAY = 25
NOW = timedelta(hours=1)  # newer runs are not part of the past
_HOURS = (8, 19)  # UTC, in which people write
_THINKS = (0.6, 2.0)  # seconds of a model's call
_DECIDES = (40, 25 * 60)  # seconds from a request to its decision
_WAITED = timedelta(minutes=2)  # between open requests, and since the newest
_FIRST_NUMBER = 1000  # of an invented subject


def start_history(desk: str, past: Past) -> Recording | None:
    """Start recording for `write_history` while tables are made at a first start; else None."""
    is_first = not connection.introspection.table_names()
    return Recording(desk, [*past.cases, *past.waiting]) if is_first and is_demo() else None


def write_history(
    workspace: Workspace, desk: str, past: Past, *, until: datetime, begun: Recording | None = None
) -> tuple[int, int]:
    """Write fourteen days of runs that end before `until`, and requests open at that time.

    Return both numbers, 0 for what already exists. Raises Refused outside a demo workspace, and
    with another model than the demo's.
    """
    _check(workspace)
    runs = Run.objects.filter(workspace=workspace, desk=desk)
    requests = Escalation.objects.filter(workspace=workspace, run__desk=desk, state="open")
    cases = [] if runs.filter(created_at__lt=until - NOW).exists() else list(past.cases)
    waiting = [] if requests.exists() else list(past.waiting)
    if not cases and not waiting:
        return 0, 0
    originals = (begun or Recording(desk, [*cases, *waiting])).originals()
    chance = random.Random(14)  # noqa: S311 - nothing secret: the same demo each time
    copied = runs.filter(subject_key__regex=r"^\d+$").values_list("subject_key", flat=True)
    newest = max(map(int, copied), default=0)
    numbers = itertools.count(max(newest + 1, _FIRST_NUMBER))
    weights = [case.weight for case in cases]
    copies = [*_past(originals[: len(cases)], weights, until, chance)] if cases else []
    planned = [*copies, *_with_waits(originals[len(cases) :], until)]
    names, kept = _names(past.names, chance), kept_rows(originals[0], workspace)
    write_copies(
        [
            Copy(original, kept, clock=clock, name=next(names), number=next(numbers))
            for original, clock in planned
        ]
    )
    return len(copies), len(waiting)


def _past(
    originals: Sequence[Original], weights: Sequence[int], until: datetime, chance: random.Random
) -> Iterator[tuple[Original, Clock]]:
    for began in _beginnings(until, chance):
        [original] = chance.choices(originals, weights)
        yield original, _clock(original, began, chance)


def _with_waits(originals: Sequence[Original], until: datetime) -> Iterator[tuple[Original, Clock]]:
    """Space the requests some minutes apart."""
    chance = random.Random(0)  # noqa: S311 - nothing secret
    for place, original in enumerate(originals):
        began = until - _WAITED * (len(originals) - place)
        yield original, _clock(original, began, chance)


def _names(names: Sequence[str], chance: random.Random) -> Iterator[str]:
    """Return names, never the same one twice in a row."""
    while True:
        yield from chance.sample(names, len(names))


def _check(workspace: Workspace) -> None:
    if not workspace.is_demo:
        raise refusal.Refused("not_demo", f"{workspace.name} is no demo: its record is real.")
    if not is_demo():
        raise refusal.Refused("real_model", "A real model answers; history is the demo's.")


def _beginnings(until: datetime, chance: random.Random) -> Iterator[datetime]:
    """Return when past runs begin: more on working days than on others."""
    for days in reversed(range(_DAYS)):  # today is the last
        day = (until - timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)
        many = RUNS_A_DAY if day.weekday() < 5 else RUNS_A_DAY // 4
        count = round(many * chance.uniform(0.8, 1.2))
        hours = sorted(chance.uniform(*_HOURS) for _ in range(count))
        yield from (began for hour in hours if (began := day + timedelta(hours=hour)) < until - NOW)


def _clock(original: Original, began: datetime, chance: random.Random) -> Clock:
    """Return the function from the original's times to those of a copy that begins at `began`.

    Between two times of the original, a copy takes as long as a model or a person would.
    """
    moments = _moments(original)
    answered = {s.ended_at for s in original.rows[Step] if s.kind == "ask"}
    decided = {e.decided_at for e in original.rows[Escalation]}
    new = [began]
    for before, after in itertools.pairwise(moments):
        seconds = (after - before).total_seconds()
        if after in decided:
            seconds += chance.uniform(*_DECIDES)
        elif after in answered:
            seconds += chance.uniform(*_THINKS)
        new.append(new[-1] + timedelta(seconds=seconds))

    def clock(moment: datetime) -> datetime:
        place = bisect_right(moments, moment) - 1
        if place < 0:
            return moment + (new[0] - moments[0])
        return new[place] + (moment - moments[place])

    return clock


def _moments(original: Original) -> Sequence[datetime]:
    """Return every time in a run, in order, except deadlines."""
    rows = [*original.rows[Step], *original.rows[Escalation], *original.events]
    values = [
        value
        for row in [original.run, *rows]
        for name, value in vars(row).items()
        if name != "expires_at"
    ]
    moments = {value for value in values if isinstance(value, datetime)}
    return sorted(moment for moment in moments if moment >= original.run.created_at)


# The recording: cases are driven once with the real engine, in a temporary database. A separate
# process does this (manage.py record_cases), so that originals never appear among the rows that
# people see, whatever database the demo uses.

CASES, ORIGINALS = "cases", "originals"  # files in the folder that both processes share


class Recording:
    """Cases being driven, in their own folder."""

    def __init__(self, desk: str, cases: Sequence[PastCase]) -> None:
        """Start the process, without waiting for it."""
        self._folder = TemporaryDirectory(prefix="opsconsole-recording-")
        folder = self._folder.name
        (Path(folder) / CASES).write_bytes(pickle.dumps((desk, list(cases))))
        scratch = {
            "DATABASE_URL": f"sqlite:///{folder}/scratch.sqlite3",
            "OPSCONSOLE_DATA_DIR": folder,
            "OPSCONSOLE_DISPATCH": "polling",
            "OPSCONSOLE_DEMO_PACE": "0",
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [*settings.OPSCONSOLE_MANAGE, "record_cases", folder], env={**os.environ, **scratch}
        )

    def originals(self) -> list[Original]:
        """Wait, and return a run for each case: ended or, if the case has no answer, waiting."""
        if self._process.wait():
            raise RuntimeError("The demo's cases could not be driven; its output says why.")
        with self._folder as folder:
            originals: list[Original] = pickle.loads((Path(folder) / ORIGINALS).read_bytes())  # noqa: S301
            return originals


def record(folder: Path, workspace: Workspace) -> None:
    """Drive the cases in a folder in a workspace, and store the resulting runs there."""
    desk, cases = pickle.loads((folder / CASES).read_bytes())  # noqa: S301 - our parent's
    if past := DESKS[desk].past:
        past.hurry()
    originals = [_drive(desk, case, workspace) for case in cases]
    (folder / ORIGINALS).write_bytes(pickle.dumps(originals))


def _drive(desk: str, case: PastCase, workspace: Workspace) -> Original:
    run = launching.launch(
        workspace=workspace,
        desk=desk,
        pattern=case.pattern,
        goal=case.goal,
        subject=case.subject or None,
        by=User.objects.get(username=case.by),
        at=timezone.now(),
        options=launching.LaunchOptions(workflow=case.workflow or None),
    )
    asyncio.run(_drive_run(run))
    while case.answer and (request := Escalation.objects.filter(run=run, state="open").first()):
        deciding.decide(
            escalation_id=request.pk,
            by=User.objects.get(username=case.answer.by),
            at=timezone.now(),
            wanted=Decision(
                approve=case.answer.approve,
                patch=case.answer.patch or None,
                comment=case.answer.comment,
            ),
        )
        asyncio.run(_drive_run(run))
    return read_original(run.pk)


async def _drive_run(run: Run) -> None:
    await run_once(run.pk)
