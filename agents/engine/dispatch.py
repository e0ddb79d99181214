"""The doorbell: tell a worker that a run can go on.

The rows are the truth, so a bell that nobody hears costs one poll. The embedded backend has
no bell at all: its workers poll. Another backend rings inside the caller's transaction.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string


class Dispatch(Protocol):
    """How claimable runs come to a worker."""

    def ring(self, run_id: UUID) -> None:
        """Announce a run, inside the transaction that made it claimable."""


class Polling:
    """Announce nothing: every worker looks for itself, OPSCONSOLE_POLL_SECONDS apart."""

    def ring(self, run_id: UUID) -> None:
        return None


def ring(run_id: UUID) -> None:
    """Announce that a run is claimable. Call inside the transaction that made it so."""
    backend: Dispatch = import_string(settings.OPSCONSOLE_DISPATCH)()
    backend.ring(run_id)
