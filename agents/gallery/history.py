"""Fill a demo workspace with a fortnight of runs, and keep some requests waiting.

Each case is driven once by the real engine with the demo model and decided by the operation that
the pages use. The copies differ in customer, number and time, and take as long as models and
people do.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from agents import operations
from agents.engine.advance import advance
from agents.gallery.cases import CASES, NAMES, WAITING, Answer, Case
from agents.gallery.copying import Clock, Copy, Original, read_original, write_copies
from agents.llm import is_demo
from agents.models import Escalation, Run, Step, Workspace

DAYS = 14
BEFORE_HISTORY = timedelta(days=DAYS + 1)  # when its workspace has to have begun
RUNS_A_DAY = 25
NOW = timedelta(hours=1)  # what is newer is no past
HOURS = (8, 19)  # UTC, of customers who write
THINKS = (0.6, 2.0)  # seconds of a model's call
DECIDES = (40, 25 * 60)  # seconds from a request to its decision


def write_history(workspace: Workspace, *, operator: User, until: datetime, seed: int = 14) -> int:
    """Write fourteen days of runs that end before `until`. Return how many; 0 if it has a past.

    Raises Refused outside a demo workspace, and where another model than the demo's answers.
    """
    _check(workspace)
    if Run.objects.filter(workspace=workspace, created_at__lt=until - NOW).exists():
        return 0
    chance = random.Random(seed)  # noqa: S311 - nothing secret: the same demo each time
    originals = [_drive(case, workspace, operator) for case in CASES]
    copies = []
    for n, began in enumerate(_beginnings(until, chance)):
        [original] = chance.choices(originals, [case.weight for case in CASES])
        clock = _clock(original, began, chance)
        copies.append(Copy(original, clock=clock, name=chance.choice(NAMES), number=1000 + n))
    write_copies(copies)
    return len(copies)


def launch_waiting(workspace: Workspace, *, operator: User) -> int:
    """Launch what is to wait for a reviewer, where nothing waits. Return how many runs."""
    _check(workspace)
    if Escalation.objects.filter(workspace=workspace, state="open").exists():
        return 0
    for case in WAITING:
        _launch(case, workspace, operator)
    return len(WAITING)


def _check(workspace: Workspace) -> None:
    if not workspace.is_demo:
        raise operations.Refused("not_demo", f"{workspace.name} is no demo: its record is real.")
    if not is_demo():
        raise operations.Refused("real_model", "A real model answers; history is the demo's.")


def _launch(case: Case, workspace: Workspace, operator: User) -> Run:
    return operations.launch(
        workspace=workspace,
        pattern=case.pattern,
        goal=case.goal,
        subject=case.subject,
        by=operator,
        workflow=case.workflow or None,
        at=timezone.now(),
    )


def _drive(case: Case, workspace: Workspace, operator: User) -> Original:
    """Take a case to its end, whatever it puts to a person."""
    run = _launch(case, workspace, operator)
    asyncio.run(_advance(run))
    while open_ := Escalation.objects.filter(run=run, state="open").first():
        _decide(open_, case.answer)
        asyncio.run(_advance(run))
    return read_original(run.pk)


async def _advance(run: Run) -> None:
    await advance(run.pk)


def _decide(escalation: Escalation, answer: Answer | None) -> None:
    if answer is None:
        raise RuntimeError(f"Nobody answers for {escalation.kind} of {escalation.run.goal!r}")
    operations.decide(
        escalation_id=escalation.pk,
        by=User.objects.get(username=answer.by),
        approve=answer.approve,
        amount_minor=answer.amount_minor,
        comment=answer.comment,
        at=timezone.now(),
    )


def _beginnings(until: datetime, chance: random.Random) -> Iterator[datetime]:
    """Return when runs of the past begin: on working days more than on others."""
    for days in range(DAYS, 0, -1):
        day = (until - timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)
        many = RUNS_A_DAY if day.weekday() < 5 else RUNS_A_DAY // 4
        for _ in range(round(many * chance.uniform(0.8, 1.2))):
            began = day + timedelta(hours=chance.uniform(*HOURS))
            if began < until - NOW:
                yield began


def _clock(original: Original, began: datetime, chance: random.Random) -> Clock:
    """Return how a moment of the original becomes one of a copy that begins at `began`.

    Between two moments of the original a copy lets pass what a model or a person would take.
    """
    moments = _moments(original)
    answered = {s.ended_at for s in original.rows[Step] if s.kind == "ask"}
    decided = {e.decided_at for e in original.rows[Escalation]}
    new = [began]
    for before, after in itertools.pairwise(moments):
        seconds = (after - before).total_seconds()
        if after in decided:
            seconds += chance.uniform(*DECIDES)
        elif after in answered:
            seconds += chance.uniform(*THINKS)
        new.append(new[-1] + timedelta(seconds=seconds))

    def clock(moment: datetime) -> datetime:
        place = bisect_right(moments, moment) - 1
        if place < 0:
            return moment + (new[0] - moments[0])
        return new[place] + (moment - moments[place])

    return clock


def _moments(original: Original) -> Sequence[datetime]:
    """Return every moment of a run, in order; a deadline is none."""
    rows = [*original.rows[Step], *original.rows[Escalation], *original.events]
    values = [
        value
        for row in [original.run, *rows]
        for name, value in vars(row).items()
        if name != "expires_at"
    ]
    found = {value for value in values if isinstance(value, datetime)}
    return sorted(moment for moment in found if moment >= original.run.created_at)
