"""Try a draft on stored runs: asked for on a page, judged in a process that a worker watches.

A process of its own, as judging in a worker's thread would slow its runs down several times.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from agents.core.limits import BadPolicy, Limits, read_limits
from agents.engine.runtime.database import in_database
from agents.models import DraftTrial, PolicyDraft, Role, Run
from agents.publishing.whatif import judge_period
from agents.shell.refusal import Refused, require_member

log = logging.getLogger(__name__)

DAYS = (7, 14, 30, 90)  # that a person may choose
BUSY = 75  # the exit code of a process next to another one of this server
_PAUSE = 2.0  # seconds between two looks
_BETWEEN = 1.0  # seconds between two signs of life
_SILENT = timedelta(minutes=1)  # after which a process counts as dead
_TRIES = 3  # processes that may die over one trial
_GRACE = 2.0  # seconds for a process that is told to end
_KEPT = 20  # trials of a workspace


class TrialEnded(Exception):
    """The trial was cancelled or taken over."""


def ask_trial(draft: PolicyDraft, *, by: User, days: int, at: datetime) -> DraftTrial:
    """Request a trial of a draft as it is saved, unless one is under way. Raises Refused."""
    draft = PolicyDraft.objects.select_related("workspace__policy").get(pk=draft.pk)  # as saved
    workspace, policy = draft.workspace, draft.workspace.policy
    require_member(workspace, by, Role.ADMIN)
    if days not in DAYS:
        raise Refused("days", f"Choose {', '.join(map(str, DAYS))} days.")
    if policy is None:
        raise Refused("no_policy", "There is no policy to compare it with.")
    _limits_of(draft.document)
    kept = DraftTrial.objects.filter(workspace=workspace).order_by("-pk")
    oldest = kept.filter(ended_at__isnull=False).values_list("pk", flat=True)[_KEPT - 1 :]
    DraftTrial.objects.filter(pk__in=list(oldest)).delete()
    since = at - timedelta(days=days)
    total = Run.objects.filter(workspace=workspace, created_at__gte=since).count()
    about = {"workspace": workspace, "policy": policy, "document": draft.document, "total": total}
    with suppress(IntegrityError), transaction.atomic():
        return DraftTrial.objects.create(draft=draft, by=by, days=days, asked_at=at, **about)
    return DraftTrial.objects.get(draft=draft, ended_at=None)


def cancel_trial(trial: DraftTrial, *, by: User, at: datetime) -> None:
    """Cancel a trial; its process notices within a second."""
    outcome = {"failed": f"{by.get_username()} cancelled it."}
    DraftTrial.objects.filter(pk=trial.pk, ended_at=None).update(ended_at=at, outcome=outcome)


def forget_runs(runs: QuerySet[Run], workspace: int) -> None:
    """Take erased runs out of the flips that trials list; their sums stay, as a run's do."""
    gone = {str(key) for key in runs.values_list("pk", flat=True)}
    for trial in DraftTrial.objects.select_for_update().filter(workspace=workspace):
        outcome = trial.outcome or {}
        kept = [one for one in outcome.get("flips", ()) if one[0] not in gone]
        if len(kept) < len(outcome.get("flips", ())):
            trial.outcome = {**outcome, "flips": kept}
            trial.save(update_fields=["outcome"])


# In the process.


def judge_trial(pk: int) -> bool:
    """Judge one trial. Return False if another one runs on this server."""
    with open(__file__, "rb") as ours:
        try:
            fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _judge(DraftTrial.objects.select_related("workspace", "policy").get(pk=pk))
    return True


def _judge(trial: DraftTrial) -> None:
    heard_at = 0.0

    def step(done: int) -> None:
        nonlocal heard_at
        if time.monotonic() - heard_at >= _BETWEEN:
            heard_at = time.monotonic()
            if not _open(trial).update(done=done, seen_at=timezone.now()):
                raise TrialEnded

    try:
        was, would = (_limits_of(one) for one in (trial.policy.document, trial.document))
        outcome = judge_period(
            trial.workspace, was, would, since=trial.since, until=trial.asked_at, step=step
        )
    except TrialEnded:
        return
    except Refused as no:
        outcome = {"failed": str(no)}
    _open(trial).update(ended_at=timezone.now(), done=F("total"), outcome=outcome)


def _limits_of(document: object) -> Limits:
    try:
        return read_limits(document)
    except BadPolicy as error:
        raise Refused("bad_policy", str(error)) from None


def _open(trial: DraftTrial) -> QuerySet[DraftTrial]:
    return DraftTrial.objects.filter(pk=trial.pk, tries=trial.tries, ended_at=None)


# In the worker.


async def try_until(stop: asyncio.Event) -> None:
    """Run trials, one at a time, until told to stop."""
    while not stop.is_set():
        try:
            did = await try_next(stop)
        except Exception:
            log.exception("A trial could not be taken")
            did = False
        if not did:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _PAUSE)


async def try_all(stop: asyncio.Event) -> None:
    """Run all requested trials."""
    while not stop.is_set() and await try_next(stop):
        pass


async def try_next(stop: asyncio.Event) -> bool:
    """Run the oldest waiting trial in a process. Return False if none was run to its end."""
    trial = await in_database(_take)
    if trial is None:
        return False
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = (sys.executable, "-m", "django", "try_draft", str(trial.pk))
    process = await asyncio.create_subprocess_exec(*command, env=known, start_new_session=True)
    ended, stopping = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            process.terminate()
            await asyncio.wait({ended}, timeout=_GRACE)
    finally:
        stopping.cancel()
        if process.returncode is None:
            process.kill()
    is_given_back = stop.is_set() or process.returncode == BUSY
    await in_database(_leave, trial, is_given_back)
    return process.returncode == 0


def _take() -> DraftTrial | None:
    at = timezone.now()
    free = DraftTrial.objects.filter(
        Q(seen_at=None) | Q(seen_at__lt=at - _SILENT), ended_at=None
    ).order_by("pk")
    for trial in free[:10]:
        if free.filter(pk=trial.pk, tries=trial.tries).update(seen_at=at, tries=F("tries") + 1):
            taken = DraftTrial.objects.get(pk=trial.pk)
            if taken.tries <= _TRIES:
                return taken
            failed = "Processes ended while they judged. Ask the operator to look at the log."
            _open(taken).update(ended_at=at, outcome={"failed": failed})
    return None


def _leave(trial: DraftTrial, is_given_back: bool) -> None:
    """Let another worker, or this one, take a trial that has not ended."""
    _open(trial).update(seen_at=None, tries=F("tries") - (1 if is_given_back else 0))
