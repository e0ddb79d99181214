"""Call a company's own functions: an error becomes a sentence for people and a logged traceback.

Look-ups on other machines come before a transaction, never under its locks.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import DatabaseError
from django.utils import timezone

from agents.engine.drive import Later
from agents.engine.runtime.database import TOOL_THREADS
from agents.models import Run
from agents.sdk.desk import DESKS, Desk

log = logging.getLogger(__name__)

_LONGEST = 10.0  # seconds allowed for an answer
AGAIN = timedelta(seconds=30)  # before the next try after a failure
FAILED = "lookup_failed"


class DeskFailed(Exception):
    """A function of a desk raised. The message names its purpose."""


class StaleLookup(Exception):
    """The answer is older than the desk allows, or missing."""


class LookupFailed(Exception):
    """The other machine gave no answer in time."""


@contextmanager
def of_company(failure: str) -> Iterator[None]:
    """Call a company's function. Raises DeskFailed, and database errors unchanged."""
    try:
        yield
    except (DatabaseError, StaleLookup):
        raise
    except Exception as error:  # any error of a company's function
        log.exception("%s", failure)
        raise DeskFailed(f"{failure} ({type(error).__name__})") from error


@dataclass(frozen=True)
class LookedUp:
    """An answer, and the time of its request."""

    value: Any
    at: datetime

    def is_fresh(self, desk: Desk, at: datetime) -> bool:
        return at - self.at <= desk.fresh


async def look_up(run: Run, known: LookedUp | None) -> LookedUp | None:
    """Return the answer to the desk's look-up, `known` while it is fresh. Raises Later."""
    desk, at = DESKS.get(run.desk), timezone.now()
    if desk is None or desk.ahead is None or not run.subject_key:
        return None
    if known and known.is_fresh(desk, at):
        return known
    try:
        async with asyncio.timeout(_LONGEST):
            return LookedUp(await TOOL_THREADS.run(partial(desk.ahead, run.subject_key)), at)
    except Exception as error:  # any error: without an answer nothing is reviewed
        log.exception("The desk %s could not look up what it needs", desk.name)
        raise Later(AGAIN, FAILED) from error


def look_up_now(run: Run) -> LookedUp | None:
    """Run the look-up of a run's desk and return the answer. Raises LookupFailed."""
    desk, at = DESKS.get(run.desk), timezone.now()
    if desk is None or desk.ahead is None:
        return None
    submitted = TOOL_THREADS.submit(partial(desk.ahead, run.subject_key))
    try:
        return LookedUp(submitted.result(_LONGEST), at)
    except Exception as error:
        log.exception("The desk %s could not look up what it needs", desk.name)
        raise LookupFailed from error
