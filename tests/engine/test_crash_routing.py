"""A worker that dies anywhere while a case is routed: the run ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents import results
from agents.core.states import RunState
from agents.engine import crashpoints
from agents.models import Escalation, Run
from tests.engine.dying import die_at
from tests.engine.memory import Crash
from tests.engine.scene import Scene, fresh, go, has_ended, recover, set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

REROUTED = "Customer 42 wants the monthly charge refunded. Try the wrong desk first."
NOBODYS = "Customer 42 asks what the weather will be."


@pytest.fixture(autouse=True)
def _nobody_watches_afterwards() -> Iterator[None]:
    yield
    crashpoints.watch(None)


def to_the_end(scene: Scene, run: Run) -> None:
    """Work, let Rita take what waits for her, and recover until the run has ended."""
    for _ in range(12):
        try:
            if go(run).state == RunState.WAITING:
                scene.decide(run, amount_minor=None)
        except Crash:
            recover(run.pk)
        if has_ended(run):
            return
    raise AssertionError(f"it never ended: {fresh(run).state}")


def told(run: Run) -> dict[str, Any]:
    """Return what a run came to, and by which steps."""
    keys = list(run.steps.order_by("position").values_list("key", flat=True))
    return {**results.result(fresh(run)), "run_id": "", "steps": keys}


@pytest.mark.parametrize(("goal", "handed_over"), [(REROUTED, 0), (NOBODYS, 1)])
def test_a_crash_at_any_point_changes_nothing(goal: str, handed_over: int) -> None:
    scene = set_scene()
    points: list[str] = []
    crashpoints.watch(points.append)
    calm = scene.launch(goal, pattern="routing")
    to_the_end(scene, calm)
    expected = told(calm)
    assert len(points) > 12

    for number in range(1, len(points) + 1):
        run = scene.launch(goal, pattern="routing")
        die_at(number)
        to_the_end(scene, run)
        crashpoints.watch(None)
        where = f"{number}: {points[number - 1]}"
        assert told(run) == expected, where
        assert Escalation.objects.filter(run=run).count() == handed_over, where
