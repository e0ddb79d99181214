"""Whose run it is, and for how long."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from django.conf import settings

from agents.engine.database import in_database
from agents.models import Run

log = logging.getLogger(__name__)

OWNER = uuid.uuid4().hex  # this process
RENEWALS = 3  # of a lease in its length


def length() -> timedelta:
    """Return how long a claim holds without a sign of life."""
    return timedelta(seconds=settings.OPSCONSOLE_LEASE_SECONDS)


@asynccontextmanager
async def kept() -> AsyncIterator[None]:
    """Renew the leases of this process while the block runs: a model may take its time."""
    renewing = asyncio.create_task(_renew_for_ever())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _renew_for_ever() -> None:
    while True:
        await asyncio.sleep(length().total_seconds() / RENEWALS)
        try:
            await in_database(Run.renew, OWNER, length())
        except Exception:  # tried again long before the lease runs out
            log.exception("Leases could not be renewed")
