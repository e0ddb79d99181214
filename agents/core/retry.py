"""When to ask a model again, and how long to wait before it."""

from __future__ import annotations

ATTEMPTS = 3  # as many as the reference's client makes: one call and two retries
LONGEST_WAIT = 60.0  # seconds; a longer wait is not worth the run's time


def pause_before(attempt: int, *, hint: float | None, jitter: float) -> float:
    """Return seconds to wait before `attempt` (2, 3, …), from 0.

    The server's Retry-After hint counts up to LONGEST_WAIT. Without one: up to 0.5, 1, 2 … s,
    scaled by `jitter` in [0, 1], so that runs that failed together do not return together.
    """
    if hint is not None:
        return min(hint, LONGEST_WAIT)
    return min(0.5 * 2.0 ** (attempt - 2), LONGEST_WAIT) * jitter
