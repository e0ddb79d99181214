"""The demo model carries out a workflow's steps, and judges them."""

import asyncio
import json

import pytest

from agents import llm
from agents.core.checkpoints import read_commitment, read_verdict
from agents.core.requests import Json
from agents.desks.refunds.scenarios import BY_KEY

pytestmark = pytest.mark.usefixtures("nothing_is_configured")

ASKS = "Anna (user_id=42) asks which plan she has."
CONTEXT = {
    "user": {"id": 42, "name": "Anna"},
    "billing": {"plan": "annual", "last_charge_usd": 1200.0, "days_since_payment": 10},
    "policy_hint": {"refund_window_days": 14},
}
STEP = {"goal": ASKS, "step": "draft", "instruction": "Draft it.", "earlier_outputs": {}}


def ask_model(role: str, **inputs: Json) -> str:
    question = llm.Question(role, {**STEP, **inputs}, as_json=inputs.get("answer_as") != "text")
    return asyncio.run(llm.ask(question, timeout=60)).text


def test_it_commits_to_the_tools_it_has() -> None:
    committed = read_commitment(ask_model("committer", tools=["send_reply"]))

    assert (committed.given, committed.confidence) == (True, "high")
    assert "call send_reply" in committed.scope_in


def test_it_reads_the_context_and_says_what_it_read() -> None:
    tools = ["get_refund_context"]
    call = json.loads(ask_model("executor", step="facts", answer_as="action", tools=tools, done=[]))
    done = [{**call, "observation": CONTEXT}]

    final = json.loads(
        ask_model("executor", step="facts", answer_as="action", tools=tools, done=done)
    )

    assert call["args"] == {"user_id": 42}
    assert "the last charge was 1,200.00 USD" in final["answer"]


@pytest.mark.parametrize(("iterations", "converged"), [([], False), (["v1"], True)])
def test_it_is_satisfied_with_its_second_version(iterations: list[str], converged: bool) -> None:
    earlier = {"answer_as": "iteration", "earlier_outputs": {"draft": "v1"}}

    said = ask_model("executor", step="check", iterations=iterations, **earlier)

    assert json.loads(said) == {"result": "v1", "converged": converged}


@pytest.mark.parametrize(
    ("goal", "step", "triggers", "word"),
    [
        (ASKS, "draft", [], "continue"),
        (ASKS, "draft", ["ledger:x"], "reorient"),
        (BY_KEY["halted"].goal, "facts", [], "halt"),
        (BY_KEY["judge-asks"].goal, "draft", [], "ask_human"),
        (BY_KEY["judge-asks"].goal, "check", [], "continue"),
        (BY_KEY["reoriented"].goal, "draft", [], "reorient"),
    ],
)
def test_the_judge_heeds_scenario_and_triggers(
    goal: str, step: str, triggers: list[str], word: str
) -> None:
    said = ask_model("judge", goal=goal, step=step, triggers=triggers, done=[])

    assert read_verdict(said).word == word


def test_unsure_judge_accepts_a_rewritten_text() -> None:
    again = {"goal": BY_KEY["judge-asks"].goal, "instruction": "Draft it.\n\nName the plan."}

    said = ask_model("judge", triggers=[], done=[], **again)

    assert read_verdict(said).word == "continue"
