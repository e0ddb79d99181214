"""Try a draft on stored runs: asked for on a page, judged in a process that a worker watches.

A process of its own, as judging in a worker's thread would slow its runs down several times.
"""

import asyncio
import fcntl
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from agents.core.requests import Json
from agents.engine.runtime.database import in_database
from agents.models import DraftTrial, PolicyDraft, Role, Run
from agents.models.record import JobEnded
from agents.publishing.drafts import is_stale
from agents.publishing.versions import limits_of
from agents.publishing.whatif import judge_period
from agents.shell.refusal import Refused, require_member

DAYS = (7, 14, 30, 90)  # that a person may choose
_KEPT = 20  # trials of a workspace


def ask_trial(draft: PolicyDraft, *, by: User, days: int, at: datetime) -> DraftTrial:
    """Request a trial of a draft as it is saved, unless one is under way. Raises Refused."""
    draft = PolicyDraft.objects.select_related("workspace__policy").get(pk=draft.pk)  # as saved
    workspace, policy = draft.workspace, draft.workspace.policy or draft.base
    require_member(workspace, by, Role.ADMIN)
    if days not in DAYS:
        raise Refused("days", f"Choose {', '.join(map(str, DAYS))} days.")
    if is_stale(draft):
        raise Refused("stale", "Another version was published meanwhile. Rebase the draft first.")
    if limits_of(draft.document) == limits_of(policy.document):
        raise Refused("same", f"The draft changes nothing: it is like v{policy.number}, in force.")
    kept = DraftTrial.objects.filter(workspace=workspace).order_by("-pk")
    oldest = kept.filter(ended_at__isnull=False).values_list("pk", flat=True)[_KEPT - 1 :]
    DraftTrial.objects.filter(pk__in=list(oldest)).delete()
    launched = Run.objects.filter(workspace=workspace, created_at__gte=at - timedelta(days=days))
    about: Any = {"workspace": workspace, "policy": policy, "document": draft.document}
    with suppress(IntegrityError), transaction.atomic():
        about |= {"by": by, "days": days, "asked_at": at, "total": launched.count()}
        return DraftTrial.objects.create(draft=draft, **about)
    return DraftTrial.objects.get(draft=draft, ended_at=None)


def cancel_trial(trial: DraftTrial, *, by: User, at: datetime) -> None:
    """Cancel a trial; its process notices within a second."""
    outcome = {"failed": f"{by.get_username()} cancelled it."}
    DraftTrial.objects.filter(pk=trial.pk, ended_at=None).update(ended_at=at, outcome=outcome)


def forget_runs(runs: QuerySet[Run], workspace: int) -> None:
    """Take erased runs out of the flips that trials list; their sums stay, as a run's do."""
    gone = {str(key) for key in runs.values_list("pk", flat=True)}
    judged = DraftTrial.objects.filter(workspace=workspace, outcome__has_key="flips")
    for trial in judged.select_for_update():
        outcome: Json = trial.outcome
        kept = [one for one in outcome["flips"] if one[0] not in gone]
        if len(kept) < len(outcome["flips"]):
            trial.outcome = {**outcome, "flips": kept}
            trial.save(update_fields=["outcome"])


# In the process.


def judge_trial(trial: DraftTrial) -> None:
    period: Any = {"since": trial.since, "until": trial.asked_at, "step": trial.tell}
    try:
        was, would = (limits_of(one) for one in (trial.policy.document, trial.document))
        outcome = judge_period(trial.workspace, was, would, **period)
    except JobEnded:
        return
    except Refused as no:
        outcome = {"failed": str(no)}
    trial.end(outcome)
    emptied = Run.objects.filter(workspace=trial.workspace, erased_at__isnull=False)
    with transaction.atomic():
        forget_runs(emptied, trial.workspace_id)  # one may have been erased meanwhile


# In the worker.


async def try_next(stop: asyncio.Event) -> bool:
    """Run the oldest waiting trial in a process. Return False if none was run to its end."""
    trial = await in_database(DraftTrial.take)
    if trial is None:
        return False
    command = (*settings.OPSCONSOLE_MANAGE, "try_draft", str(trial.pk))
    with open(__file__, "rb") as ours:
        try:
            fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another one runs on this server
            await in_database(trial.leave)
            return False
        shared: Any = {"start_new_session": True, "pass_fds": [ours.fileno()]}  # with its lock
        process = await asyncio.create_subprocess_exec(*command, **shared)
    ended, stopping = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not ended.done():
            process.kill()  # it writes in one transaction, at its end
    await ended
    await in_database(partial(trial.leave, is_tried=not stop.is_set()))
    return process.returncode == 0
