"""The doorbell: tell a worker that a run can continue.

Rows hold the truth, so a lost bell costs only the wait for the next sweep. Polling has no bell:
workers look for themselves. Procrastinate rings inside the caller's transaction.
"""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from agents.models import Run

# By the name in OPSCONSOLE_DISPATCH; imported when used, as each needs its own libraries.
_BACKENDS = {
    "polling": "agents.engine.runtime.dispatch.Polling",
    "procrastinate": "agents.engine.runtime.jobs.Jobs",
}


class Dispatch(Protocol):
    """How claimable runs reach a worker."""

    def ring(self, run_id: UUID, *, at: datetime | None) -> None:
        """Announce a run inside the transaction that makes it claimable, now or from `at`."""

    def hasten(self) -> None:
        """Deliver runs that were announced for later and have become claimable."""

    def unheard(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        """Return those of these claimable runs whose bell was lost."""


class Polling:
    """Announce nothing: every worker looks every OPSCONSOLE_POLL_SECONDS."""

    def ring(self, run_id: UUID, *, at: datetime | None) -> None:
        return None

    def hasten(self) -> None:
        return None

    def unheard(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        return runs.none()


def ring(run_id: UUID, *, at: datetime | None = None) -> None:
    """Announce that a run is claimable. Call inside the transaction that makes it so."""
    _backend().ring(run_id, at=at)


def hasten() -> None:
    """Deliver at once the runs that were announced for later and are claimable now."""
    _backend().hasten()


def unheard(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return the claimable runs whose bell was lost."""
    return _backend().unheard(runs)


def _backend() -> Dispatch:
    backend: Dispatch = import_string(_BACKENDS[settings.OPSCONSOLE_DISPATCH])()
    return backend
