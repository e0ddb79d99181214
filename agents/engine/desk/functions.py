"""Call a company's own functions: an error becomes a sentence for people and a logged traceback."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError

from agents.engine.desk.fresh_lookup import StaleLookup

log = logging.getLogger(__name__)


class DeskFailed(Exception):
    """A function of a desk raised. The message says what it was for."""


@contextmanager
def of_company(failure: str) -> Iterator[None]:
    """Call a company's function. Raises DeskFailed, and database errors as they are."""
    try:
        yield
    except (DatabaseError, StaleLookup):
        raise
    except Exception as error:  # whatever a company's function does wrong
        log.exception("%s", failure)
        raise DeskFailed(f"{failure} ({type(error).__name__})") from error
