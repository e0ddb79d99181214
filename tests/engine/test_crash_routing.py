"""A worker that dies anywhere while a case is routed: the run ends as if nothing had happened."""

from __future__ import annotations

import pytest

from agents.models import Escalation, Run
from tests.engine.dying import die_everywhere, result_and_steps
from tests.engine.scene import set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

REROUTED = "Customer 42 wants the monthly charge refunded. Try the wrong desk first."
NOBODYS = "Customer 42 asks what the weather will be."


@pytest.mark.parametrize(("goal", "handed_over"), [(REROUTED, 0), (NOBODYS, 1)])
def test_a_crash_at_any_point_changes_nothing(goal: str, handed_over: int) -> None:
    scene = set_scene()

    points, (_, _, asked) = die_everywhere(
        lambda: scene.launch(goal, pattern="routing"),
        lambda run: (result_and_steps(run), keys_in_order(run), count_requests(run)),
        lambda run: scene.decide(run, amount_minor=None),
    )

    assert len(points) > 12
    assert asked == handed_over


def keys_in_order(run: Run) -> list[str]:
    return list(run.steps.order_by("position").values_list("key", flat=True))


def count_requests(run: Run) -> int:
    return Escalation.objects.filter(run=run).count()
