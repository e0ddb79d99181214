"""Look up the outcome of a tool's call by its key."""

from __future__ import annotations

from django.db import DatabaseError

from agents.core.requests import Json
from agents.tools import OutcomeUnknown, Tool


class LookupBroken(OutcomeUnknown):
    """The look-up failed; it may succeed later."""


def outcome_of(tool: Tool, key: str) -> Json:
    """Return the result a tool finds for a key; None if nothing is found or it has no look-up.

    Raises OutcomeUnknown if the tool cannot tell, LookupBroken for any other error of its own.
    """
    try:
        return tool.find(key) if tool.find else None
    except (OutcomeUnknown, DatabaseError):
        raise  # our own database failed: the caller retries as a whole
    except Exception as error:
        raise LookupBroken(f"{tool.name} could not be asked what became of {key}") from error
