"""Periodic work: the sweep, the sums of past days, growth."""

from collections.abc import Callable

# Additions of other rooms to the sweep, from `apps.ready`, by name; nobody waits for them.
ROOMS: dict[str, Callable[[], object]] = {}


class NotDone(Exception):
    """A part of the sweep was refused; the message says why."""
