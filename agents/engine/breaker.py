"""Leave a model's server alone for a while when it fails again and again.

Its state is a row that all workers share (decision 0010). A run that may not ask goes back to
the queue and holds no worker; after the rest one call is made, and its outcome speaks for all.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents import llm
from agents.models import Endpoint

log = logging.getLogger(__name__)

FAILURES = 5  # in a row, of any runs: more than one run makes before it gives up
REST = timedelta(seconds=30)
SETTLING = timedelta(seconds=5)  # beyond a call's own deadline, until its outcome is written


@dataclass(frozen=True)
class Leave:
    """Leave to make one call. `address` is "" for the demo model, which nobody counts."""

    address: str
    failures: int = 0  # in a row, when it was given
    probe: bool = False


class Resting(Exception):
    """The server is left alone; ask again at `at`."""

    def __init__(self, at: datetime) -> None:
        super().__init__(str(at))
        self.at = at


def leave() -> Leave:
    """Give leave to ask the model that is configured. Raises Resting."""
    address = llm.address()
    known = Endpoint.objects.filter(address=address).first()
    if known is None:
        return Leave(address)
    if known.rests_until is None:
        return Leave(address, known.failures)
    longest = timedelta(seconds=settings.OPENAI_TIMEOUT_SECONDS)
    if Endpoint.probe(address, within=longest + SETTLING):
        return Leave(address, known.failures, probe=True)
    # A probe may be back long before it has to be, so nobody waits for longer than a rest.
    raise Resting(min(known.rests_until, timezone.now() + REST))


def answered(given: Leave) -> None:
    """Note that a server with failures did its work, whatever it said."""
    Endpoint.recovered(given.address)


def failed(given: Leave) -> None:
    """Note that the server did not do its work."""
    if not given.address:
        return
    with transaction.atomic():
        rests = Endpoint.count_failure(given.address, most=FAILURES, rest=REST, probe=given.probe)
    if rests:
        log.warning("The model's server %s fails; it is left alone for %s", given.address, REST)
