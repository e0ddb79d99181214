"""A circuit breaker for each model server: after repeated failures it is left alone for a while.

Its state is a row that all workers share (decision 4). A run that may not ask goes
back to the queue and occupies no worker. After the rest one probe is made; if it is answered, all
waiting runs are woken.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from agents import llm
from agents.core.requests import Json
from agents.core.states import RunState
from agents.engine.runtime.database_state import database_time
from agents.engine.runtime.dispatch import hasten
from agents.models import Endpoint, Run

log = logging.getLogger(__name__)

FAILURES = 5  # in a row, over all runs; one run alone makes fewer
REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=5)  # if the server itself asks for longer than REST
WOKEN = 3  # runs a second that check whether a rest is over: each check adds an event
SPREAD = timedelta(seconds=5), timedelta(minutes=10)  # shortest and longest span of these checks
RESTS = "model_server_rests"  # the recorded reason why a run waits
SETTLING = timedelta(seconds=5)  # allowed after a call's deadline for recording its outcome


@dataclass(frozen=True)
class Permit:
    """Permission for one call. `address` is "" for the demo model, whose failures do not count."""

    address: str
    failures: int = 0  # in a row, when it was given
    probe: bool = False
    tool_calls: Mapping[str, Json] = field(default_factory=dict)  # as its row has them


class CircuitOpen(Exception):
    """The server is being left alone; ask again after `pause`, or up to `spread` later."""

    def __init__(self, pause: timedelta, spread: timedelta) -> None:
        super().__init__(str(pause))
        self.pause, self.spread = pause, spread


def request_permit() -> Permit:
    """Return a permit to ask the configured model. Raises CircuitOpen."""
    address = llm.address()
    known = Endpoint.objects.filter(address=address).first()
    if known is None:
        return Permit(address)
    if known.rests_until is None:
        return Permit(address, known.failures, tool_calls=known.tool_calls)
    longest = timedelta(seconds=settings.OPENAI_TIMEOUT_SECONDS)
    if Endpoint.probe(address, within=longest + SETTLING):
        return Permit(address, known.failures, probe=True, tool_calls=known.tool_calls)
    least, most = SPREAD
    waiting = Run.objects.filter(state=RunState.QUEUED, wake_at__gt=Now()).count()
    # A probe may return long before its deadline, so nobody waits longer than a rest.
    pause = min(max(known.rests_until - database_time(), timedelta()), LONGEST_REST)
    raise CircuitOpen(pause, min(max(least, timedelta(seconds=waiting / WOKEN)), most))


def record_answer(given: Permit) -> None:
    """Record that a failing server answered, and wake the runs that waited for it."""
    if Endpoint.record_recovery(given.address):
        log.info("The model's server %s answers again", given.address)
        wake_runs(Run.objects.all())


def wake_runs(runs: QuerySet[Run]) -> int:
    """Make those of these runs that wait for a time claimable now. Return their number.

    A job queue announces them at once.
    """
    woken = runs.filter(state=RunState.QUEUED, wake_at__gt=Now()).update(wake_at=Now())
    if woken:
        hasten()
    return woken


def wake_if_rest_is_over(run_id: UUID) -> None:
    """Wake a run that was queued while its server rested, if the rest is already over.

    Call after that commit: an answer in between has woken every run but this one, and a later
    answer finds it waiting. So it is woken in either order, without a lock.
    """
    if not Endpoint.objects.resting().filter(address=llm.address()).exists():
        wake_runs(Run.objects.filter(pk=run_id))


def record_failure(given: Permit, error: llm.ModelFailed) -> None:
    """Record that the server failed, or cannot answer with these settings."""
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
