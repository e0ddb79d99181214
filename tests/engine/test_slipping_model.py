"""A slow model that errs like real ones: every pattern ends properly under strict."""

import json

import pytest
from django.test import override_settings

from agents import results
from agents.core.requests import Json, RunState
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.models import SentMail
from agents.models import Run
from tests.engine.faulty import FaultyServer, Said, advance_all, as_demo, faulty_server
from tests.engine.scene import Scene, mails, payments

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("sources_answer_at_once"),
]

CLAIM = "500.00 USD was refunded."
PLAN_OF_ONE = json.dumps(
    {
        "kind": "plan",
        "tasks": [
            {
                "id": "t1",
                "worker": "sales_worker",
                "args": {"report_date": "2026-02-26", "region": "US"},
                "critical": True,
            }
        ],
    }
)
PATTERNS = ("within-limit", "routed", "morning-report", "reply")


def slip_reply(kind: str, role: str, said: str) -> str:
    """Return a faulty reply in place of a sound one."""
    if kind == "cut off":
        return said[: len(said) // 2]
    if kind == "prose":
        return f"Sure! Here is the JSON you asked for:\n```json\n{said}\n```"
    if role in ("worker", "executor") and said.startswith("{"):
        return json.dumps({"kind": "final", "answer": CLAIM})
    return said if said.startswith("{") else CLAIM


def slipping(server: FaultyServer, kind: str, nth: int) -> Said:
    """Return a model that errs once, at its `nth` call."""

    def says(role: str, inputs: Json) -> str:
        said = as_demo(role, inputs)
        return slip_reply(kind, role, said) if len(server.calls) == nth else said

    return says


def driven(scene: Scene, key: str, kind: str, nth: int) -> Run:
    with faulty_server(timeout=30) as server:
        server.says = slipping(server, kind, nth)
        [run] = advance_all([scene.launch_scenario(key)])
    return run


@pytest.mark.proves("I46", "F31")
@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["cut off", "prose", "false claim"])
@pytest.mark.parametrize("key", PATTERNS)
def test_it_comes_to_an_honest_end(scene: Scene, key: str, kind: str, nth: int) -> None:
    run = driven(scene, key, kind, nth)

    assert run.state in (RunState.DONE, RunState.WAITING), run.stop_reason
    told = [str((run.outcome or {}).get("answer", "")), *SentMail.objects.values_list("body")]
    assert payments(run) or not any(CLAIM in str(text) for text in told)
    assert len(payments(run)) <= 1
    assert len(mails(run)) <= 1


def test_false_claim_is_told_and_the_work_gets_done(scene: Scene) -> None:
    run = driven(scene, "within-limit", "false claim", 1)

    assert run.stop_reason == "success"
    assert (payments(run), mails(run)) == ([50000], [50000])


# A scenario, and the first reply of one of its roles.
SLIPS = {
    "a router's torn route": ("routed", "router", '{"kind": "ro'),
    "a router's other desk": ("routed", "router", '{"kind": "route", "target": "x"}'),
    "a responder without words": ("routed", "responder", " "),
    "a plan that is none": ("morning-report", "planner", "Let us begin."),
    "a plan that leaves somebody out": ("morning-report", "planner", PLAN_OF_ONE),
    "a reporter without words": ("morning-report", "reporter", "\n"),
    "a step's torn call": ("reply", "executor", '{"kind": "tool"'),
}


@pytest.mark.proves("I46")
@pytest.mark.parametrize("slip", SLIPS)
def test_every_pattern_tells_its_models_and_goes_on(scene: Scene, slip: str) -> None:
    key, role, first = SLIPS[slip]
    told_of: list[Json] = []

    def says(asked_role: str, inputs: Json) -> str:
        if asked_role != role:
            return as_demo(asked_role, inputs)
        told_of.append(inputs.get("blocked", inputs.get("state_summary", {}).get("blocked")))
        return first if len(told_of) == 1 else as_demo(asked_role, inputs)

    with faulty_server(timeout=30) as server:
        server.says = says
        [run] = advance_all([scene.launch_scenario(key)])

    assert run.stop_reason == "success"
    assert told_of[0] is None
    [block] = told_of[1]
    assert block["sentence"]


@pytest.mark.proves("I46")
@pytest.mark.parametrize("key", ["routed", "morning-report", "reply"])
def test_no_pattern_tells_a_lost_model_for_ever(scene: Scene, key: str) -> None:
    with faulty_server(timeout=30) as server:
        server.says = lambda role, inputs: "no"
        [run] = advance_all([scene.launch_scenario(key)])

    assert run.stop_reason.startswith("invalid_")
    assert len(results.result(run)["blocks"]) == STRICT.max_blocks + 1


def test_strict_output_reads_as_the_model_meant_it(scene: Scene) -> None:
    """A server with schema support adds an envelope and null for absent keys."""
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

    assert (run.stop_reason, payments(run)) == ("success", [50000])
    form = server.bodies[0]["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["properties"]["reply"]["anyOf"]
