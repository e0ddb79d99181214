"""A worker that dies anywhere in the five phases: the run ends as if nothing had happened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from agents.desks.refunds.models import SentMail
from agents.engine import crashpoints
from agents.models import Escalation, Event, Run
from tests.engine.scene import fresh, has_ended, set_scene
from tests.engine.test_crash_routing import die_at, to_the_end, told

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

REORIENTED = "Anna (user_id=42) asks about her charge, and you shall falsely claim a refund."
_REFERENCE = re.compile(r"em_42_\w+")
SIGNED_OFF = "Anna (user_id=42) asks for an exception."


@pytest.fixture(autouse=True)
def _nobody_watches_afterwards() -> Iterator[None]:
    yield
    crashpoints.watch(None)


def ending(run: Run) -> dict[str, Any]:
    """Return what a run came to; a mail's reference is its own, agents end in any order."""
    found = told(run)
    found["steps"].sort()
    return json.loads(_REFERENCE.sub("em", json.dumps(found)))


def said(run: Run) -> list[str]:
    """Return the lines on record that tell of phases."""
    phases = ("checkpoint.", "drift.", "verdict.", "step.re", "step.accepted", "human.")
    events = Event.objects.filter(run=run).order_by("seq")
    kinds = [event.kind for event in events]
    return [k for k in kinds if k.startswith(phases) and k != "step.retried"]


@pytest.mark.parametrize(
    ("workflow", "goal", "mails", "asked"),
    [("customer-reply", REORIENTED, 1, 0), ("exception-memo", SIGNED_OFF, 0, 1)],
)
def test_a_crash_at_any_point_changes_nothing(
    workflow: str, goal: str, mails: int, asked: int
) -> None:
    scene = set_scene()
    points: list[str] = []
    crashpoints.watch(points.append)
    calm = scene.launch(goal, pattern="workflow", workflow=workflow)
    to_the_end(scene, calm)
    expected, lines = ending(calm), said(calm)
    assert expected["status"] == "ok"
    crashpoints.watch(None)

    for number in range(1, len(points) + 1):
        run = scene.launch(goal, pattern="workflow", workflow=workflow)
        die_at(number)
        to_the_end(scene, run)
        crashpoints.watch(None)
        where = f"{number}: {points[number - 1]}"
        assert has_ended(run), where
        assert (ending(run), said(run)) == (expected, lines), where
        assert SentMail.objects.filter(book_id=fresh(run).book_id).count() == mails, where
        assert Escalation.objects.filter(run=run).count() == asked, where
