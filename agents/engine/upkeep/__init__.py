"""What is done once in a while: the sweep, the sums of past days, growth."""

from collections.abc import Callable

# What a room above adds to the sweep in `apps.ready`, by what it does; nobody waits for it.
ROOMS: dict[str, Callable[[], object]] = {}


class NotDone(Exception):
    """A part of the sweep was refused; the message says all there is to know."""
