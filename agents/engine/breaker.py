"""Leave a model's server alone for a while when it fails again and again.

Its state is a row that all workers share (decisions 0010 and 0015). A run that may not ask goes
back to the queue and holds no worker; after the rest one call is made, and its outcome speaks
for all: where it is answered, every run that waits is woken.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from agents import llm
from agents.core.states import RunState
from agents.engine.database_state import database_time
from agents.engine.dispatch import hasten
from agents.models import Endpoint, Run

log = logging.getLogger(__name__)

FAILURES = 5  # in a row, over all runs; one run alone makes fewer
REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=5)  # where the server itself asks for a longer one than REST
WOKEN = 3  # runs a second that look whether a rest is over: each look is a line on its record
SPREAD = timedelta(seconds=5), timedelta(minutes=10)  # over which they look, at least and at most
RESTS = "model_server_rests"  # why a run waits, on its record
SETTLING = timedelta(seconds=5)  # beyond a call's own deadline, until its outcome is written


@dataclass(frozen=True)
class Permit:
    """Permission for one call. `address` is "" for the demo model, whose failures do not count."""

    address: str
    failures: int = 0  # in a row, when it was given
    probe: bool = False


class CircuitOpen(Exception):
    """The server is left alone; ask again after `pause`, or up to `spread` later."""

    def __init__(self, pause: timedelta, spread: timedelta) -> None:
        super().__init__(str(pause))
        self.pause, self.spread = pause, spread


def request_permit() -> Permit:
    """Give leave to ask the model that is configured. Raises CircuitOpen."""
    address = llm.address()
    known = Endpoint.objects.filter(address=address).first()
    if known is None:
        return Permit(address)
    if known.rests_until is None:
        return Permit(address, known.failures)
    longest = timedelta(seconds=settings.OPENAI_TIMEOUT_SECONDS)
    if Endpoint.probe(address, within=longest + SETTLING):
        return Permit(address, known.failures, probe=True)
    least, most = SPREAD
    waiting = Run.objects.filter(state=RunState.QUEUED, wake_at__gt=Now()).count()
    # A probe may be back long before it has to be, so nobody waits for longer than a rest.
    pause = min(max(known.rests_until - database_time(), timedelta()), LONGEST_REST)
    raise CircuitOpen(pause, min(max(least, timedelta(seconds=waiting / WOKEN)), most))


def record_answer(given: Permit) -> None:
    """Note that a server with failures did its work, and wake whoever waited for that."""
    if Endpoint.record_recovery(given.address):
        log.info("The model's server %s answers again", given.address)
        wake_runs(Run.objects.all())


def wake_runs(runs: QuerySet[Run]) -> int:
    """Let those of these runs go on now that wait for a time. Return how many.

    A queue that brings runs to workers brings them now.
    """
    woken = runs.filter(state=RunState.QUEUED, wake_at__gt=Now()).update(wake_at=Now())
    if woken:
        hasten()
    return woken


def wake_if_rest_is_over(run_id: UUID) -> None:
    """Let a run go on that was put back because its server rests, where it rests no more.

    Ask once that is committed: whoever was answered meanwhile has woken all but this one. Who is
    answered later finds it waiting, so no order of the two leaves it asleep, and nobody locks.
    """
    if not Endpoint.objects.resting().filter(address=llm.address()).exists():
        wake_runs(Run.objects.filter(pk=run_id))


def record_failure(given: Permit, error: llm.ModelFailed) -> None:
    """Note that the server did not do its work, or will not with these settings."""
    if not given.address:
        return
    asked_for = timedelta(seconds=min(error.retry_after or 0, LONGEST_REST.total_seconds()))
    rest = max(REST, asked_for)
    with transaction.atomic():
        rests = Endpoint.count_failure(
            given.address, fault=str(error), most=FAILURES, rest=rest, probe=given.probe
        )
    if rests:
        log.warning("%s %s is not called for %s", error, given.address, rest)
