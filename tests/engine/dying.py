"""Make a worker die where a test wants it, and remember where one has died."""

from __future__ import annotations

from collections.abc import Callable

from agents.engine import crashpoints
from tests.engine.memory import Crash
from tests.whole import died_at

# What a run passes that asks a model, calls a tool and commits, however it goes about it.
AROUND_CALLS_AND_COMMITS = {
    *("model.before_call", "model.after_call"),
    *("gateway.before_call", "gateway.after_call"),
    *("journal.before_commit", "journal.after_commit"),
}


def die_at(number: int, *, only: str = "") -> None:
    """Die when a crash point is reached for the `number`-th time, and never again.

    `only` counts one point; else all of them count.
    """
    crashpoints.watch(_dying(number, only))


def _dying(number: int, only: str) -> Callable[[str], None]:
    count = 0

    def hook(name: str) -> None:
        nonlocal count
        count += only in ("", name)
        if count == number and only in ("", name):
            died_at.add(name)
            raise Crash(name)

    return hook
