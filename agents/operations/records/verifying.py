"""Verify the record in a worker: requested, followed and cancelled on the page."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from agents.audit.chains import Chain
from agents.audit.verified import keep_verified, newest_verified
from agents.audit.verify import Proof, prove
from agents.core.requests import Json
from agents.engine.runtime.database import in_database
from agents.engine.runtime.threads import VERIFYING_THREADS
from agents.models import Role, Run, Verification, Workspace
from agents.models.record import Entry, append_events
from agents.record.chain import run_keys
from agents.shell.refusal import Refused, require_member

log = logging.getLogger(__name__)

PAUSE = 2.0  # seconds between two looks
BETWEEN = 1.0  # seconds between two signs of life
SILENT = timedelta(minutes=1)  # after which its worker counts as dead
TRIES = 3  # workers that may die over one verification
NAMED = 20  # faults that are recorded


class Ended(Exception):
    """The verification was cancelled or taken over, or this worker is stopping."""


def ask_verification(
    *, by: User, workspaces: Iterable[Workspace], is_full: bool = False, at: datetime
) -> None:
    """Request a verification of these workspaces, unless the same person waits for one.

    It continues from the last one unless `is_full`, or if the last full one is long ago.
    """
    keys = sorted(one.pk for one in workspaces)
    total = len(keys) + Run.objects.filter(workspace__in=keys).count()
    with suppress(IntegrityError), transaction.atomic():
        Verification.objects.create(
            by=by, workspaces=keys, asked_at=at, total=total, is_full=is_full
        )


def cancel_verification(*, by: User, at: datetime) -> None:
    """Cancel a person's verification; its worker notices within a second."""
    open_ones = Verification.objects.filter(by=by, ended_at=None)
    open_ones.update(cancelled_at=at, ended_at=at)


def verify_next(is_stopping: Callable[[], bool] = lambda: False) -> bool:
    """Run the oldest waiting verification. Return False if there is none."""
    at = timezone.now()
    free = Verification.objects.filter(
        Q(seen_at=None) | Q(seen_at__lt=at - SILENT), ended_at=None
    ).order_by("pk")
    for found in free[:10]:
        mine = free.filter(pk=found.pk, tries=found.tries)
        if mine.update(seen_at=at, tries=F("tries") + 1):
            _do(Verification.objects.get(pk=found.pk), is_stopping)
            return True
    return False


def _do(job: Verification, is_stopping: Callable[[], bool]) -> None:
    if job.tries > TRIES:
        _end(job, {"failed": "Workers ended while they verified. Ask the operator to look there."})
        return
    workspaces = Workspace.objects.filter(pk__in=job.workspaces)
    heard_at = time.monotonic()

    def step(done: int) -> None:
        nonlocal heard_at
        if is_stopping():  # another worker starts it again
            _lock_job(job).update(seen_at=None, tries=F("tries") - 1)
            raise Ended
        if time.monotonic() - heard_at >= BETWEEN:
            heard_at = time.monotonic()
            if not _lock_job(job).update(done=done, seen_at=timezone.now()):
                raise Ended

    try:
        found = prove(
            runs=Run.objects.filter(workspace__in=workspaces),
            workspaces=workspaces,
            file=Path(settings.OPSCONSOLE_HEADS_FILE),
            step=step,
            since=None if job.is_full else newest_verified(workspaces, at=timezone.now()),
        )
        if found.faults:  # recorded even if nobody may read the result any more
            keep_verified(workspaces, None)
        _tell(job, workspaces, found)
    except Ended:
        return
    except Refused as no:  # the person may no longer verify
        _end(job, {"failed": str(no)})
    except DatabaseError:  # it starts again after SILENT
        raise
    except Exception:
        log.exception("A verification could not be done")
        _end(job, {"failed": "It could not be done: the worker's log says why."})


def _lock_job(job: Verification) -> QuerySet[Verification]:
    return Verification.objects.filter(pk=job.pk, tries=job.tries, ended_at=None)


@transaction.atomic
def _tell(job: Verification, workspaces: QuerySet[Workspace], found: Proof) -> None:
    """Record the result of a verification that is still requested."""
    faults = [str(chain) for chain in found.faults]
    outcome = {
        "chains": found.chains,
        "faults": faults,
        "more": found.more,
        "compared": found.compared,
        "keys": found.keys,
        "loose": found.loose,
        "is_torn": found.is_torn,
        "clocks": found.clock_notes(),
        "unread": found.unread,
    }
    if found.since:
        outcome |= {"since": found.since.head, "full_at": found.since.full_at.isoformat()}
    if not _end(job, outcome):
        return
    if found.reached or found.faults:  # without the key, no point to continue from is known
        keep_verified(workspaces, found.reached, found.since)
    homes = _homes(found.faults)
    for workspace in workspaces.order_by("pk"):
        own = [
            str(one) for one in found.faults if workspace.pk in homes.get(one.name, [workspace.pk])
        ]
        facts = {"chains": found.chains, "heads": found.heads, "faults": own[:NAMED]}
        facts |= {"more": more} if (more := len(own[NAMED:]) + found.more) else {}
        if found.since:
            full_at = found.since.full_at.isoformat()
            facts |= {"since": found.since.head, "unread": found.unread, "full_at": full_at}
        require_member(workspace, job.by, Role.AUDITOR, Role.ADMIN)
        said = Entry("audit.verified", facts, job.by.get_username())
        append_events([said], workspace_id=workspace.pk, at=timezone.now())


def _homes(faults: Sequence[Chain]) -> dict[str, set[int]]:
    """Return the workspace of each chain, as its faults may be shown only to its readers."""
    runs = run_keys(one.name.replace(" ", "/", 1) for one in faults)
    found = Run.objects.filter(pk__in=runs).values_list("pk", "workspace")
    homes = {f"run {pk}": {workspace} for pk, workspace in found}
    for slug, pk in Workspace.objects.values_list("slug", "pk"):
        for name in (slug, pk):  # a miscounted chain is named by its key
            homes.setdefault(f"workspace {name}", set()).add(pk)
    return homes


def _end(job: Verification, outcome: Json) -> bool:
    return bool(_lock_job(job).update(ended_at=timezone.now(), done=F("total"), outcome=outcome))


async def verify_until(stop: asyncio.Event) -> None:
    """Run verifications, one at a time, until told to stop."""
    while not stop.is_set():
        try:
            did = await VERIFYING_THREADS.run(lambda: verify_next(stop.is_set))
        except Exception:
            log.exception("A verification could not be taken")
            did = False
        if not did:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PAUSE)


async def verify_all(stop: asyncio.Event) -> None:
    """Run all requested verifications."""
    while not stop.is_set() and await in_database(verify_next):
        pass
