"""Ask a tool by its key what became of a call."""

from __future__ import annotations

import logging

from django.db import DatabaseError

from agents.core.requests import Json
from agents.tools import OutcomeUnknown, Tool

log = logging.getLogger(__name__)


class LookupBroken(OutcomeUnknown):
    """The tool could not be asked; another time it may answer."""


def outcome_of(tool: Tool, key: str) -> Json:
    """Return what a tool tells of a key, or None where it tells nothing or has no lookup.

    Raises OutcomeUnknown where the tool cannot tell, LookupBroken whatever else it raises.
    """
    try:
        return tool.find(key) if tool.find else None
    except (OutcomeUnknown, DatabaseError):
        raise  # our own database failed: the caller retries as a whole
    except Exception as error:
        log.exception("%s could not be asked what became of %s", tool.name, key)
        raise LookupBroken(key) from error
