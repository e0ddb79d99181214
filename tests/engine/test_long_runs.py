"""The cost of a long run: each turn costs as much as in a short run."""

import json
import sys
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents import llm
from agents.live.topics import RunTopic, read_update
from agents.models import Run
from agents.publishing.versions import policy_version
from tests.engine.scene import Scene, go, set_scene
from tests.limits import with_part
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)

READ = {"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}
END = {"kind": "final", "answer": "Nothing was refunded."}
MANY, FEW = 90, 15


def launch(scene: Scene, turns: int) -> Run:
    """Launch a run that repeats one reading call, with limits raised."""
    assert scene.workspace.policy
    most = {"get_refund_context": 1000}
    wide = replace(
        with_part(scene.workspace.policy.limits(), tool_calls=most, tool_repeats=most),
        max_steps=1000,
        max_tool_calls=1000,
        max_seconds=10_000,
        max_tokens=2**40,
    )
    scene.workspace.policy = policy_version(scene.workspace, wide, at=timezone.now())
    scene.workspace.save(update_fields=["policy"])
    return scene.launch(f"Read what is known of customer 42, {turns} times")


async def answer(question: llm.Question, *, timeout: float) -> llm.ModelAnswer:
    done, wanted = question.inputs["state_summary"]["steps_completed"], question.inputs["goal"]
    said = READ if done < int(wanted.split()[-2]) - 1 else END
    return llm.ModelAnswer(json.dumps(said), "scripted", 1, 1, 0, demo=False)


def driven(run: Run) -> int:
    """Drive a run. Return how many Python functions it called or resumed."""
    calls = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    with mock.patch.object(llm, "ask", answer):
        sys.setprofile(count)
        try:
            go(run)
        finally:
            sys.setprofile(None)
    return calls


def stored_chars(run: Run) -> int:
    """Return the characters that a run's steps hold."""
    return sum(len(json.dumps([step.asked, step.reply])) for step in run.steps.all())


def test_a_turn_of_a_long_run_costs_what_one_of_a_short_run_does() -> None:
    scene = set_scene()
    driven(launch(scene, 2))  # what is done once a process
    short, long = launch(scene, FEW), launch(scene, MANY)

    calls = {turns: driven(run) / turns for turns, run in ((FEW, short), (MANY, long))}

    assert [run.steps.filter(kind="use").count() for run in (short, long)] == [FEW - 1, MANY - 1]
    assert calls[MANY] < 1.5 * calls[FEW]
    assert stored_chars(long) / MANY < 1.5 * stored_chars(short) / FEW
    page = client_of(scene.eve).get(f"/runs/{long.pk}/")
    first = client_of(scene.eve).get(f"/runs/{long.pk}/?before=3")
    assert len(page.content) < 100_000
    frames = []
    for run in (short, long):
        with CaptureQueriesContext(connection) as asked:
            frames.append((len(read_update(RunTopic(run.pk), "1").lines), len(asked)))
    (_, few_queries), (size, queries) = frames
    assert (size < 100_000, queries) == (True, few_queries), frames
    assert f"Steps {MANY - 24} to {MANY} of {MANY}" in " ".join(page.text.split())
    assert f"Steps 1 to 2 of {MANY}" in " ".join(first.text.split())
