"""Put right what a crash or a lost bell left behind.

Every worker sweeps; conditional updates make many sweepers harmless.
"""

from __future__ import annotations

import time
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from agents.audit.sealing import seal_when_due
from agents.core.replay import Reply
from agents.core.states import ENDED, EffectState, EscalationState, RunState
from agents.db.statistics import keep_statistics
from agents.engine.answering import expire
from agents.engine.calling import CallOutcome
from agents.engine.case_days import count_next_day
from agents.engine.climbing import climb
from agents.engine.commit import Commit
from agents.engine.crashpoints import crashpoint
from agents.engine.database_growth import measure_database
from agents.engine.dispatch import ring, unheard
from agents.engine.expired_invitations import expire_invitations
from agents.engine.lease import TOGETHER, requeue_runs
from agents.engine.lookup import LookupBroken, outcome_of
from agents.engine.model_use import sum_next_day
from agents.engine.redaction import redact_for
from agents.engine.review_days import sum_next_review_day
from agents.engine.settling import settle
from agents.models import Effect, Escalation, LostRun, Run
from agents.tools import TOOLS, OutcomeUnknown

ORPHANED = timedelta(minutes=1)  # longer than any tool may take
HOUR = 3600.0  # seconds
BATCH = 100  # rows put right in one sweep; the next one does the rest

_kept_at = -HOUR


def sweep() -> int:
    """Queue what can go on and expire what is due. Return how many rows were put right."""
    put_right = _expire() + _climb() + _requeue_abandoned() + _requeue_decided() + _settle_orphans()
    put_right += _ring_again() + expire_invitations(at=timezone.now())
    crashpoint("sweep.after_commit")
    sum_next_day(at=timezone.now())
    count_next_day(at=timezone.now())
    sum_next_review_day(at=timezone.now())
    seal_when_due(at=timezone.now())
    _look_hourly()
    return put_right


def _look_hourly() -> None:
    """Have the database count anew and be measured once an hour of this process."""
    global _kept_at
    if time.monotonic() - _kept_at >= HOUR:
        keep_statistics()
        measure_database(at=timezone.now())
        _kept_at = time.monotonic()


def _expire() -> int:
    """Close escalations whose time is over: silence is a no."""
    due = Escalation.objects.filter(
        state=EscalationState.OPEN, expires_at__lte=Now(), frozen_at=None
    )
    keys = due.order_by("expires_at", "pk").values_list("pk", flat=True)[:BATCH]
    return sum(expire(pk, at=timezone.now()) for pk in keys)


def _climb() -> int:
    """Ask the next tier about what one did not answer in its time."""
    due = Escalation.objects.filter(
        state=EscalationState.OPEN, climbs_at__lte=Now(), frozen_at=None, expires_at__gt=Now()
    )
    keys = due.order_by("climbs_at", "pk").values_list("pk", flat=True)[:BATCH]
    return sum(climb(pk, at=timezone.now()) for pk in keys)


def _requeue_abandoned() -> int:
    """Queue runs whose worker went quiet: its lease ran out by the database's clock."""
    gone = Run.objects.filter(state=RunState.RUNNING, lease_ends_at__lt=Now())
    facts = {"why": "its worker went quiet"}
    count = 0
    while queued := requeue_runs(gone.order_by("lease_ends_at", "pk")[:TOGETHER], facts=facts):
        count += queued
    return count


def _requeue_decided() -> int:
    """Queue waiting runs that have nothing left to wait for."""
    waiting = Run.objects.filter(state=RunState.WAITING)
    # Keys alone come from the indexes: ten thousand runs may wait, and every sweep asks.
    answered = waiting.exclude(escalations__state=EscalationState.OPEN).order_by("pk")
    count = 0
    for run in Run.objects.filter(pk__in=list(answered.values_list("pk", flat=True)[:BATCH])):
        try:
            with transaction.atomic():
                run.move(RunState.QUEUED, at=timezone.now(), facts={"why": "it was decided"})
                ring(run.pk)
                count += 1
        except LostRun:
            continue  # somebody queued it first
    return count


def _ring_again() -> int:
    """Ring for queued runs whose bell was lost: by a queue that was emptied, or a switch."""
    queued = Run.objects.filter(state=RunState.QUEUED).exclude(wake_at__gt=Now())
    lost = unheard(queued).order_by("created_at", "pk").values_list("pk", flat=True)[:BATCH]
    for run_id in lost:
        ring(run_id)
    return len(lost)


def _settle_orphans() -> int:
    """Settle intents whose run has ended without them: ask by key what became of the call."""
    old = Effect.objects.unsettled().filter(
        state=EffectState.INTENDED, intended_at__lt=timezone.now() - ORPHANED
    )
    # Not in the query: SQLite would then begin with every ended run.
    found = old.select_related("run__policy", "step").order_by("intended_at", "pk")
    orphans = [effect for effect in found if effect.run.state in ENDED]
    return sum(settle_orphan(effect) for effect in orphans[:BATCH])


def settle_orphan(effect: Effect) -> bool:
    """Settle a write as its tool tells by the key. Return False where nothing came of that."""
    tool = TOOLS.get(effect.tool)
    try:
        result = outcome_of(tool, effect.key) if tool else None
        state = EffectState.DONE if result is not None else EffectState.REFUSED
        if not (tool and tool.find):
            state = EffectState.UNKNOWN
    except LookupBroken:  # the next sweep asks again
        return False
    except OutcomeUnknown:
        result, state = None, EffectState.UNKNOWN
    outcome = CallOutcome(state, Reply(redact_for(effect.run, result)))
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=effect.run_id)
        with Commit(run, at=timezone.now()) as commit:
            return settle(commit, effect.step, outcome, tool=tool)
