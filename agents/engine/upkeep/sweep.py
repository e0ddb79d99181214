"""Repair what a crash or a lost bell left behind.

Every worker sweeps; conditional updates make many sweepers harmless.
"""

import logging
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from agents.core.limits import EXTERNAL
from agents.core.requests import EffectState, EscalationState, Reply, RunState
from agents.core.reviews import OutcomeUnknown
from agents.db.sqlite import keep_statistics
from agents.engine.commit import Commit
from agents.engine.deciders import climb
from agents.engine.lease import requeue_runs
from agents.engine.redaction import redact_for
from agents.engine.runtime.crashpoints import crashpoint
from agents.engine.runtime.dispatch import ring, unheard
from agents.engine.tools.gateway import (
    QUEUE_SECONDS,
    CallOutcome,
    LookupBroken,
    outcome_of,
    reported_failure,
    settle,
)
from agents.engine.turns.answering import end_silent, expire
from agents.engine.upkeep import ROOMS, NotDone, daily
from agents.models import Effect, Escalation, LostRun, Run
from agents.sdk.desk import tools_at

log = logging.getLogger(__name__)

ORPHANED = timedelta(seconds=QUEUE_SECONDS)  # before its tool's own time begins, at the latest
MINUTE, HOUR = 60.0, 3600.0  # seconds
BATCH = 100  # rows repaired in one sweep; the next one does the rest

_kept_at = -HOUR
_told_at: dict[str, float] = {}  # when a part's failure was last logged


def sweep() -> int:
    """Queue what can continue and expire what is due. Return the number of repaired rows.

    If one part fails, the others are done.
    """
    put_right = sum(_do(name, part) for name, part in _URGENT.items())
    crashpoint("sweep.after_commit")
    for name, part in {**_LATER, **ROOMS}.items():
        _do(name, part)
    return put_right


def _do(name: str, part: Callable[[], object]) -> int:
    """Do one part. If it fails, say so once a minute; a database error ends the whole sweep."""
    try:
        done = part()
    except DatabaseError:
        raise
    except Exception as error:  # any error of one part
        now = time.monotonic()
        if now - _told_at.get(name, -MINUTE) >= MINUTE:
            _told_at[name] = now
            is_refusal = isinstance(error, (NotDone, OSError))
            log.error("The sweep could not %s: %s", name, error, exc_info=not is_refusal)
        return 0
    return done if isinstance(done, int) else 0


def _look_hourly() -> None:
    """Count and measure the database once an hour of this process."""
    global _kept_at
    if time.monotonic() - _kept_at >= HOUR:
        keep_statistics()
        daily.measure_database(at=timezone.now())
        _kept_at = time.monotonic()


def _expire() -> int:
    """Close requests after their deadline: silence is a rejection."""
    due = Escalation.objects.filter(
        state=EscalationState.OPEN, expires_at__lte=Now(), frozen_at=None
    )
    keys = due.order_by("expires_at", "pk").values_list("pk", flat=True)[:BATCH]
    return sum(expire(pk, at=timezone.now()) for pk in keys)


def _climb() -> int:
    """Ask the next tier about requests that one did not answer in time."""
    due = Escalation.objects.filter(
        state=EscalationState.OPEN, climbs_at__lte=Now(), frozen_at=None, expires_at__gt=Now()
    )
    keys = due.order_by("climbs_at", "pk").values_list("pk", flat=True)[:BATCH]
    return sum(climb(pk, at=timezone.now()) for pk in keys)


def _requeue_abandoned() -> int:
    """Queue runs whose worker went quiet: its lease ran out by the database's clock."""
    gone = Run.objects.filter(state=RunState.RUNNING, lease_ends_at__lt=Now())
    return requeue_runs(gone.order_by("lease_ends_at", "pk"), why="its worker went quiet")


def _requeue_decided() -> int:
    """Queue waiting runs that have nothing left to wait for."""
    waiting = Run.objects.filter(state=RunState.WAITING)
    # Keys alone come from the indexes: ten thousand runs may wait, and every sweep asks. A run with
    # an external agent always listens; its calls queue it.
    answered = waiting.exclude(pattern=EXTERNAL).exclude(escalations__state=EscalationState.OPEN)
    answered = answered.order_by("pk")
    return _queue(answered.values_list("pk", flat=True)[:BATCH], why="it was decided")


def _ask_what_came() -> int:
    """Queue waiting runs whose agents did not report in time, so that a person is asked."""
    due = Effect.objects.unsettled().filter(state=EffectState.INTENDED, report_due_at__lte=Now())
    due = due.filter(run__state=RunState.WAITING).order_by("report_due_at", "pk")
    return _queue(due.values_list("run", flat=True)[:BATCH], why="its agent did not report")


def _queue(keys: Iterable[UUID], *, why: str) -> int:
    """Queue waiting runs. Return how many nobody else had queued first."""
    count = 0
    for run in Run.objects.filter(pk__in=list(keys)):
        try:
            with transaction.atomic():
                run.move(RunState.QUEUED, at=timezone.now(), facts={"why": why})
                ring(run.pk)
                count += 1
        except LostRun:
            continue
    return count


def _ring_again() -> int:
    """Ring for queued runs whose bell was lost: the queue was emptied, or the dispatch changed."""
    queued = Run.objects.filter(state=RunState.QUEUED).exclude(wake_at__gt=Now())
    lost = unheard(queued).order_by("created_at", "pk").values_list("pk", flat=True)[:BATCH]
    for run_id in lost:
        ring(run_id)
    return len(lost)


def _settle_orphans() -> int:
    """Settle intents whose run has ended without them, by their tools' keys."""
    at = timezone.now()
    old = Effect.objects.unsettled().filter(
        state=EffectState.INTENDED, intended_at__lt=at - ORPHANED
    )
    # Not in the query: SQLite would then begin with every ended run.
    effects = old.select_related("run__policy", "step").order_by("intended_at", "pk")
    orphans = [effect for effect in effects if _is_orphan(effect, at)]
    settled, failure = 0, None
    for effect in orphans[:BATCH]:
        try:
            settled += settle_orphan(effect)
        except Exception as error:  # the next sweep tries again, and nothing waits for it
            failure = error
    if failure:
        raise failure
    return settled


def _is_orphan(effect: Effect, at: datetime) -> bool:
    """Tell whether a call's run ended so long ago that none of its calls is still running."""
    tool, ended_at = tools_at(effect.run.desk).get(effect.tool), effect.run.ended_at
    if effect.report_due_at is not None and effect.report_due_at >= at:
        return False
    longest = ORPHANED + timedelta(seconds=tool.timeout if tool else 0)
    return ended_at is not None and ended_at < at - longest


def settle_orphan(effect: Effect) -> bool:
    """Settle a write by its tool's key. Return whether it was settled. Raises LookupBroken."""
    tool = tools_at(effect.run.desk).get(effect.tool)
    try:
        result = outcome_of(tool, effect.key) if tool else None
        is_denied = (tool and tool.can_deny) or reported_failure(effect.step)
        denied = EffectState.REFUSED if is_denied else EffectState.UNKNOWN
        state = denied if result is None else EffectState.DONE
    except DatabaseError as error:  # of the tool's tables: if ours fail, the next query shows it
        raise LookupBroken(effect.key) from error
    except LookupBroken:
        raise
    except OutcomeUnknown:
        result, state = None, EffectState.UNKNOWN
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=effect.run_id)
        outcome = CallOutcome(state, Reply(redact_for(run, result)))
        with Commit(run, at=timezone.now()) as commit:
            return settle(commit, effect.step, outcome, tool=tool)


_URGENT: dict[str, Callable[[], int]] = {
    "expire requests": _expire,
    "ask the next tier": _climb,
    "queue runs whose worker went quiet": _requeue_abandoned,
    "queue runs that were decided": _requeue_decided,
    "ask for outcomes of calls that agents executed": _ask_what_came,
    "end runs of silent agents": lambda: end_silent(most=BATCH, at=timezone.now()),
    "settle calls of ended runs": _settle_orphans,
    "ring again": _ring_again,
}
_LATER: dict[str, Callable[[], object]] = {
    "sum up models' use": lambda: daily.sum_next_day(at=timezone.now()),
    "count cases": lambda: daily.count_next_day(at=timezone.now()),
    "sum up reviews": lambda: daily.sum_next_review_day(at=timezone.now()),
    "measure the database": _look_hourly,
}
