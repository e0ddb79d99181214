"""A slow model that slips as real ones do: every pattern comes to an honest end under strict."""

from __future__ import annotations

import json

import pytest
from django.test import override_settings
from django.utils import timezone

from agents import operations
from agents.core.requests import Json
from agents.core.states import RunState
from agents.desk.models import SentMail
from agents.models import Run
from agents.operations.scenarios import BY_KEY
from tests.engine.faulty import FaultyServer, Said, advance_all, as_demo, faulty_server
from tests.engine.scene import Scene, mailed, paid, set_scene

pytestmark = pytest.mark.django_db(transaction=True)

CLAIM = "500.00 USD was refunded."
PATTERNS = ("within-limit", "routed", "morning-report", "reply")


@pytest.fixture
def scene() -> Scene:
    return set_scene()


def slipped(kind: str, role: str, said: str) -> str:
    """Return what a model says in place of a sound reply."""
    if kind == "cut off":
        return said[: len(said) // 2]
    if kind == "prose":
        return f"Sure! Here is the JSON you asked for:\n```json\n{said}\n```"
    if role in ("worker", "executor") and said.startswith("{"):
        return json.dumps({"kind": "final", "answer": CLAIM})
    return said if said.startswith("{") else CLAIM


def slipping(server: FaultyServer, kind: str, nth: int) -> Said:
    """Return a model that slips once, at its `nth` call."""

    def says(role: str, inputs: Json) -> str:
        said = as_demo(role, inputs)
        return slipped(kind, role, said) if len(server.calls) == nth else said

    return says


def driven(scene: Scene, key: str, kind: str, nth: int) -> Run:
    scenario = BY_KEY[key]
    run = operations.launch(
        workspace=scene.workspace,
        pattern=scenario.pattern,
        goal=scenario.goal,
        subject=scenario.subject,
        workflow=scenario.workflow,
        by=scene.omar,
        at=timezone.now(),
    )
    with faulty_server(timeout=5, seconds=0.05) as server:
        server.says = slipping(server, kind, nth)
        [run] = advance_all([run])
    return run


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["cut off", "prose", "false claim"])
@pytest.mark.parametrize("key", PATTERNS)
def test_it_comes_to_an_honest_end(scene: Scene, key: str, kind: str, nth: int) -> None:
    run = driven(scene, key, kind, nth)

    assert run.state in (RunState.DONE, RunState.STOPPED, RunState.WAITING)
    assert not run.stop_reason.startswith(("llm_", "max_seconds"))
    told = [str((run.outcome or {}).get("answer", "")), *SentMail.objects.values_list("body")]
    assert paid(run) or not any(CLAIM in str(text) for text in told)
    assert len(paid(run)) <= 1
    assert len(mailed(run)) <= 1


def test_a_false_claim_first_is_told_to_the_model_and_the_work_is_done(scene: Scene) -> None:
    run = driven(scene, "within-limit", "false claim", 1)

    assert run.stop_reason == "success"
    assert (paid(run), mailed(run)) == ([50000], [50000])


def test_what_strict_output_wraps_and_fills_reads_as_the_model_meant_it(scene: Scene) -> None:
    """A server that takes the schema answers within it: an envelope, and null for no reason."""
    run = scene.launch("Refund 500 USD to user_id=42.")

    def in_schema(role: str, inputs: Json) -> str:
        action = json.loads(as_demo(role, inputs))
        if action.get("name") == "issue_refund":
            action["args"]["reason"] = None
        return json.dumps({"reply": action})

    with (
        faulty_server(timeout=5) as server,
        override_settings(OPENAI_STRUCTURED_OUTPUT="json_schema"),
    ):
        server.says = in_schema
        [run] = advance_all([run])

    assert (run.stop_reason, paid(run)) == ("success", [50000])
    form = server.bodies[0]["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["properties"]["reply"]["anyOf"]
