"""Fill a demo workspace with a fortnight of runs and some open requests.

The real engine drives each case with the demo model, and the operation that pages use decides it,
while a set clock tells the time. The past has a policy version of its own.
"""

import asyncio
import heapq
import itertools
import random
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import TypeAlias
from unittest.mock import patch

from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.decisions import Decision
from agents.core.requests import Json
from agents.engine import journal
from agents.engine.turns.advance import run_once
from agents.llm import demo_model, is_demo
from agents.models import Escalation, Event, Notification, Run, Workspace
from agents.publishing.versions import publish_policy
from agents.requests.deciding import decide
from agents.runs.launching import LaunchOptions, launch
from agents.sdk.demo import Past, PastCase
from agents.sdk.desk import Desk
from agents.shell.refusal import Refused

_DAYS = 14
BEFORE_HISTORY = timedelta(days=_DAYS + 1)  # the least age of its workspace
RUNS_A_DAY = 10
NOW = timedelta(hours=1)  # newer runs are not part of the past
_HOURS = (8, 19)  # UTC, in which people write
_DECIDES = (40, 25 * 60)  # seconds from a request to its decision
_WAITED = timedelta(minutes=2)  # between open requests, and since the newest
_FIRST_NUMBER = 1000  # of an invented subject
_LOOK = timedelta(milliseconds=1)  # passes at each look at the clock
# Longer than all of it: the database tells whether a request has expired, by its own clock.
_EXPIRY = 2 * BEFORE_HISTORY

Planned: TypeAlias = tuple[datetime, Workspace, PastCase]
People: TypeAlias = Iterator[tuple[str, int]]  # names and numbers of invented subjects


def write_history(
    workspace: Workspace, desk: Desk, past: Past, *, until: datetime
) -> tuple[int, int]:
    """Write fourteen days of runs that end before `until`, and requests open at that time.

    Return both numbers, 0 for what exists already, and for a workspace younger than its past.
    Raises Refused outside a demo workspace, and with another model than the demo's.
    """
    if not workspace.is_demo:
        raise Refused("not_demo", f"{workspace.name} is no demo: its record is real.")
    if not is_demo():
        raise Refused("real_model", "A real model answers; history is the demo's.")
    runs = Run.objects.filter(workspace=workspace, desk=desk.name)
    requests = Escalation.objects.filter(run__in=runs, state="open")
    is_new = not runs.filter(created_at__lt=until - NOW).exists()
    cases = past.cases if is_new and workspace.created_at <= until - BEFORE_HISTORY else ()
    waiting = () if requests.exists() else past.waiting
    chance = random.Random(14)  # noqa: S311 - nothing secret: the same demo each time
    known = runs.filter(subject_key__regex=r"^\d+$").values_list("subject_key", flat=True)
    people = invent(past, chance, after=max([*map(int, known), _FIRST_NUMBER]))
    planned: list[Planned] = []
    for at in _beginnings(until, chance) if cases else ():
        [case] = chance.choices(cases, [case.weight for case in cases])
        planned.append((at, workspace, case))
    with own_policy(workspace, desk, past) if cases else nullcontext():
        done = drive_cases(desk, past, planned, people, chance)
    first = until - _WAITED * len(waiting)
    opened = [max(first + _WAITED * place, _newest(workspace)) for place in range(len(waiting))]
    waits = [(at, workspace, case) for at, case in zip(opened, waiting, strict=True)]
    driven = [*done, *drive_cases(desk, past, waits, people, chance)]
    # People knew at the time, and the demo tells them itself what waits.
    Notification.objects.filter(run__in=driven).delete()
    return len(done), len(waits)


def _newest(workspace: Workspace) -> datetime:
    return Event.objects.filter(workspace=workspace).order_by("-pk")[0].at


@contextmanager
def own_policy(
    workspace: Workspace, desk: Desk, past: Past, *, expiry: timedelta = _EXPIRY
) -> Iterator[None]:
    """Let another policy be in force: its requests do not expire, and its caps are the past's."""
    usual: Json = workspace.policy and workspace.policy.document
    parts = dict(usual["desks"])
    if past.caps is not None:
        parts[desk.name] = {**parts[desk.name], "caps": past.caps}
    own = {**usual, "escalation_seconds": int(expiry.total_seconds()), "desks": parts}
    admin = User.objects.get(username="admin")
    publish_policy(workspace=workspace, document=own, by=admin, at=workspace.created_at)
    try:
        yield
    finally:
        publish_policy(workspace=workspace, document=usual, by=admin, at=_newest(workspace))


def invent(past: Past, chance: random.Random, *, after: int) -> People:
    """Return people, never the same name twice in a row."""
    names = (name for _ in itertools.count() for name in chance.sample(past.names, len(past.names)))
    return zip(names, itertools.count(after + 1), strict=False)


def _beginnings(until: datetime, chance: random.Random) -> Iterator[datetime]:
    """Return when past runs begin: more on working days than on others."""
    for days in reversed(range(_DAYS)):  # today is the last
        day = (until - timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)
        many = RUNS_A_DAY if day.weekday() < 5 else RUNS_A_DAY // 4
        count = round(many * chance.uniform(0.8, 1.2))
        hours = sorted(chance.uniform(*_HOURS) for _ in range(count))
        yield from (began for hour in hours if (began := day + timedelta(hours=hour)) < until - NOW)


# Cases are driven in the order of their times, as the audit log reads events by key.


class _Clock:
    """A time that goes on only where something takes time, and never back."""

    def __init__(self) -> None:
        self._at = datetime.min.replace(tzinfo=timezone.get_default_timezone())

    def now(self) -> datetime:
        self._at += _LOOK
        return self._at

    def monotonic(self) -> float:
        return self._at.timestamp()

    def wait_until(self, at: datetime) -> None:
        self._at = max(self._at, at)

    def sleep(self, seconds: float) -> None:
        self._at += timedelta(seconds=seconds)

    async def pause(self, seconds: float) -> None:
        self.sleep(seconds)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let this clock tell the time, and models and tools take none but its."""
        with (
            patch.object(timezone, "now", self.now),
            patch.object(time, "sleep", self.sleep),
            patch.object(demo_model, "pause", self.pause),
            patch.object(journal, "time", self),
        ):
            yield


def drive_cases(
    desk: Desk, past: Past, planned: Iterable[Planned], people: People, chance: random.Random
) -> list[Run]:
    """Launch cases at their times, each about somebody else, and decide those with an answer."""
    clock, numbers, runs = _Clock(), itertools.count(), []
    todo: list[tuple[datetime, int, PastCase, Workspace | Run]] = [
        (at, next(numbers), case, workspace) for at, workspace, case in planned
    ]
    heapq.heapify(todo)
    with clock.telling(), asyncio.Runner() as runner:
        while todo:
            at, _, case, of = heapq.heappop(todo)
            clock.wait_until(at)
            if isinstance(of, Workspace):
                of = _launch(desk, past, case, of, *next(people))
                runs.append(of)
            else:
                _answer(of, case)
            runner.run(run_once(of.pk))
            if case.answer and of.escalations.filter(state="open").exists():
                decided = clock.now() + timedelta(seconds=chance.uniform(*_DECIDES))
                heapq.heappush(todo, (decided, next(numbers), case, of))
    return runs


def _launch(
    desk: Desk, past: Past, case: PastCase, workspace: Workspace, name: str, number: int
) -> Run:
    """Launch a case about an invented subject; a report is about none."""
    goal, subject, fill = case.goal, case.subject or None, desk.fill_demo
    if subject and past.fill:
        kind, fill_as = desk.subject.kind, past.fill
        goal = re.sub(rf"\w+ \({kind} {subject}\)", f"{name} ({kind} {number})", goal)
        subject, old = str(number), subject
        fill = lambda book, at: fill_as(book, at, old, number, name)  # noqa: E731
    with patch.object(desk, "fill_demo", fill):
        return launch(
            workspace=workspace,
            desk=desk.name,
            pattern=case.pattern,
            goal=goal,
            subject=subject,
            by=User.objects.get(username=case.by),
            at=timezone.now(),
            options=LaunchOptions(workflow=case.workflow or None),
        )


def _answer(run: Run, case: PastCase) -> None:
    if answer := case.answer:
        changed = answer.patch or None
        decide(
            escalation_id=run.escalations.get(state="open").pk,
            by=User.objects.get(username=answer.by),
            at=timezone.now(),
            wanted=Decision(approve=answer.approve, patch=changed, comment=answer.comment),
        )
