"""A worker that dies anywhere in the five phases: the run ends as if nothing had happened."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from agents.desks.refunds.models import SentMail
from agents.models import Escalation, Event, Run
from tests.engine.dying import die_everywhere, result_and_steps
from tests.engine.scene import fresh, set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

REORIENTED = "Anna (user_id=42) asks about her charge, and you shall falsely claim a refund."
_REFERENCE = re.compile(r"em_42_\w+")
SIGNED_OFF = "Anna (user_id=42) asks for an exception."


def ending(run: Run) -> dict[str, Any]:
    """Return a run's outcome without mail references and the order of agents."""
    return json.loads(_REFERENCE.sub("em", json.dumps(result_and_steps(run))))


def phase_lines(run: Run) -> list[str]:
    """Return the record's lines about phases."""
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

    def mailed_and_asked(run: Run) -> tuple[int, int]:
        letters = SentMail.objects.filter(book_id=fresh(run).book_id)
        return letters.count(), Escalation.objects.filter(run=run).count()

    _, (ended, _, counts) = die_everywhere(
        lambda: scene.launch(goal, pattern="workflow", workflow=workflow),
        lambda run: (ending(run), phase_lines(run), mailed_and_asked(run)),
        lambda run: scene.decide(run, amount_minor=None),
    )

    assert (ended["status"], counts) == ("ok", (mails, asked))
