"""The lease of a run: which process has it, and until when."""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from agents.core.requests import RunState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import pipeline
from agents.engine.commit import Commit, end_run
from agents.engine.desk.registry import known_desks
from agents.engine.runtime.database import in_time
from agents.engine.runtime.dispatch import ring
from agents.models import Run, Worker
from agents.models.belonging import run_belongs
from agents.models.requests import has_rejections
from agents.patterns import QUESTION_VERSION

log = logging.getLogger(__name__)

OWNER = uuid.uuid4().hex  # this process
MISPLACED = "misplaced"  # stop reason of a run with references into another workspace
RENEWALS = 3  # per lease
TOGETHER = 50  # runs in one transaction: a thousand single commits would take ten seconds

_driven: set[UUID] = set()


def length() -> timedelta:
    """Return how long a claim lasts without renewal."""
    return timedelta(seconds=settings.OPSCONSOLE_LEASE_SECONDS)


def claim(run_id: UUID, *, owner: str, lease: timedelta, at: datetime) -> Run | None:
    """Claim a queued run for `lease`. Return None if it cannot be claimed.

    Runs of desks that this process lacks are left to others.
    """
    with transaction.atomic():
        with pipeline():  # together with the BEGIN
            claimable = _CLAIMABLE.fetch(pk=run_id)
        run = next(iter(claimable.get()), None)
        if run is None or run.desk not in known_desks():
            return None
        run.has_rejections = bool(vars(run).pop("rejected_before"))
        if not vars(run).pop("is_placed"):  # nothing runs under another workspace's rules
            log.error("Run %s refers to another workspace and is stopped: run verify_audit", run.pk)
            with Commit(run, at=at) as commit:
                facts = {"stop_reason": MISPLACED}
                end_run(commit, RunState.STOPPED, stop_reason=MISPLACED, facts=facts)
            return None
        run.heed(vars(run).pop("in_force"))
        with Commit(run, at=at, lease=lease) as commit:
            take(commit, owner=owner)
        return run


def take(commit: Commit, *, owner: str) -> None:
    """Take a queued run, with its row locked and its commit one that leases."""
    run = commit.run
    commit.change(state=RunState.RUNNING, lease_owner=owner, wake_at=None)
    commit.change(fence=run.fence + 1, attempts=run.attempts + 1)
    commit.say("run.claimed", {"attempt": run.attempts})


_CLAIMABLE = CompiledSelect(
    lambda: (
        Run.objects.filter(
            pk=Param("pk"), state=RunState.QUEUED, question_version__lte=QUESTION_VERSION
        )
        .exclude(wake_at__gt=Now())
        .select_related("policy")
        .annotate(
            is_placed=run_belongs(),
            rejected_before=has_rejections(
                workspace=OuterRef("workspace"), subject=OuterRef("subject_key")
            ),
            in_force=F("workspace__policy__sha256"),
        )
        .select_for_update(of=("self",))
    )
)


@contextmanager
def driving(run_id: UUID) -> Iterator[None]:
    """Renew the lease while the block runs."""
    _driven.add(run_id)
    try:
        yield
    finally:
        _driven.discard(run_id)


def driven_runs() -> frozenset[UUID]:
    """Return the runs that this process is driving."""
    return frozenset(_driven)


@asynccontextmanager
async def keep_leases(*, is_worker: bool = False) -> AsyncIterator[None]:
    """Renew the leases of this process while the block runs, as a model may take long.

    Only a worker reports itself alive: a command drives one run and takes no other.
    """
    renewing = asyncio.create_task(_renew_for_ever(is_worker=is_worker))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _renew_for_ever(*, is_worker: bool) -> None:
    begun = time.monotonic()
    while True:
        idle, begun = time.monotonic() - begun, time.monotonic()
        if idle > length().total_seconds():
            log.warning(
                "Leases were not renewed for %.0f s, and last %.0f s: this process or its database "
                "stood still, and other workers may have taken over its runs",
                idle,
                length().total_seconds(),
            )
        try:
            await in_time(Run.renew, OWNER, length(), driven_runs())
            if is_worker:
                await in_time(Worker.give_sign, OWNER)
        except Exception:  # tried again long before the lease runs out
            log.exception("Leases could not be renewed")
        await asyncio.sleep(length().total_seconds() / RENEWALS)


def release_runs() -> int:
    """Queue the runs that this process still holds, at its end. Return their number.

    Their last claim is not counted: an ordered stop does not suggest that the run kills workers.
    """
    held = Run.objects.filter(lease_owner=OWNER, state=RunState.RUNNING).order_by("pk")
    return requeue_runs(held, why="its worker was told to stop", uncounted=1)


def requeue_runs(runs: QuerySet[Run], *, why: str, uncounted: int = 0) -> int:
    """Queue these running runs, except locked ones. Return their number.

    `uncounted` claims are taken off each run's count.
    """
    count = 0
    while True:
        with transaction.atomic():
            locked = list(runs.select_for_update(skip_locked=True)[:TOGETHER])
            for run in locked:
                attempts, facts = run.attempts - uncounted, {"why": why}
                run.move(RunState.QUEUED, at=timezone.now(), facts=facts, attempts=attempts)
                ring(run.pk)
        if not locked:
            return count
        count += len(locked)
