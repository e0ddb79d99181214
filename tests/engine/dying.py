"""Make a worker die at a crash point, and remember which points were used."""

from collections.abc import Callable
from typing import Any

from agents import results
from agents.core.requests import RunState
from agents.engine.runtime import crashpoints
from agents.models import Run
from tests.engine.memory import Crash
from tests.engine.scene import fresh, go, has_ended, recover
from tests.whole import died_at

# Passed by every run that asks a model, calls a tool and commits.
AROUND_CALLS_AND_COMMITS = {
    *("model.before_call", "model.after_call"),
    *("gateway.before_call", "gateway.after_call"),
    *("journal.before_commit", "journal.after_commit"),
}


def die_at(number: int, *, only: str = "") -> None:
    """Die once, when a crash point is reached for the `number`-th time.

    With `only`, count that point alone.
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


def to_the_end(run: Run, decide: Callable[[Run], object] | None = None) -> None:
    """Drive, decide and recover a run until it has ended."""
    for _ in range(12):
        try:
            if go(run).state == RunState.WAITING and decide:
                decide(run)
        except Crash:
            recover(run.pk)
        if has_ended(run):
            return
    raise AssertionError(f"it never ended: {fresh(run).state}")


def result_and_steps(run: Run) -> dict[str, Any]:
    """Return a run's outcome and its steps; parallel steps end in any order."""
    keys = sorted(run.steps.values_list("key", flat=True))
    return {**results.result(fresh(run)), "run_id": "", "steps": keys}


def die_everywhere(
    launch: Callable[[], Run],
    ending: Callable[[Run], Any],
    decide: Callable[[Run], object] | None = None,
) -> tuple[list[str], Any]:
    """Let one run end undisturbed, then one die at each crash point that the first passed.

    All must have the same `ending`. Return the points and the ending.
    """
    points: list[str] = []
    crashpoints.watch(points.append)
    try:
        calm = launch()
        to_the_end(calm, decide)
        crashpoints.watch(None)
        expected = ending(calm)
        for number, point in enumerate(points, 1):
            run = launch()
            die_at(number)
            to_the_end(run, decide)
            crashpoints.watch(None)
            assert ending(run) == expected, f"{number}: {point}"
    finally:
        crashpoints.watch(None)
    return points, expected
