"""The demo model plays a desk's scenarios, and goals like them, to their end."""

import asyncio
import json
import time

import pytest
from django.test import override_settings

from agents import llm
from agents.core.actions import check_action
from agents.core.money import to_model_units
from agents.core.requests import Json
from agents.desks.refunds.scenarios import play
from agents.llm.call import cost_micro_usd
from agents.sdk.demo import ONLY_SCENARIOS
from tests.conformance.harness import cases

pytestmark = pytest.mark.usefixtures("nothing_is_configured")

GOAL = "User Anna (user_id=42) requests a refund of 1200 USD for the annual plan."
SPECS = {
    "get_refund_context": {"user_id": "int"},
    "issue_refund": {"user_id": "int", "amount_usd": "usd", "reason": "str?"},
    "send_refund_email": {"user_id": "int", "amount_usd": "usd", "message": "str"},
}
READ = {"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}
CONTEXT = {
    "user": {"id": 42, "name": "Anna", "country": "US", "tier": "enterprise"},
    "billing": {
        "plan": "annual_enterprise",
        "currency": "USD",
        "last_charge_usd": 1200.0,
        "days_since_payment": 10,
    },
}


def ask_model(role: str, inputs: Json) -> llm.ModelAnswer:
    return asyncio.run(llm.ask(llm.Question(role, inputs, role == "worker"), timeout=60))


def proposal_for(goal: str, last: Json = None, recent: Json = ()) -> Json:
    """Return the action that the demo model proposes, checked as a run would check it."""
    state = {"steps_completed": len(recent), "last_step": last}
    inputs = {"goal": goal, "state_summary": state, "recent_step_summaries": list(recent)}
    said = json.loads(ask_model("worker", inputs).text)
    return to_model_units(check_action(said, specs=SPECS, proposable=SPECS))


def step(action: Json, observation: Json) -> Json:
    return {
        "step": 1,
        "action": action,
        "supervisor": {"decision": "approve", "reason": "read_only_context"},
        "executed_action": action,
        "executed_from": "original",
        "observation": observation,
    }


def refund(amount: float, status: str = "ok", **more: Json) -> Json:
    args = {"user_id": 42, "amount_usd": amount, "reason": "Asked for"}
    seen = {"status": status, **({"refund": args} if status == "ok" else {}), **more}
    return step({"kind": "tool", "name": "issue_refund", "args": args}, seen)


def test_a_case_is_worked_from_the_context_to_the_answer() -> None:
    recorded = next(case for case in cases("supervisor") if case["id"] == "sup-002")

    actions = [
        json.loads(ask_model("worker", request["user"]).text)
        for request in recorded["llm_requests"]
    ]

    assert [action.get("name", "final") for action in actions] == [*SPECS, "final"]
    assert actions[1]["args"]["amount_usd"] == 1200.0
    assert actions[1]["args"]["reason"]
    assert "an email was sent" in actions[3]["answer"]


def test_demo_answer_is_labelled_and_priced() -> None:
    answer = ask_model("writer", {"goal": GOAL, "history": []})

    assert (answer.model, answer.demo) == ("demo", True)
    tokens = {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out}
    assert answer.cost_micro_usd == cost_micro_usd("gpt-4.1-mini", **tokens)
    assert answer.tokens_in > 0
    assert answer.tokens_out > 0


def test_a_question_that_asks_for_no_money_gets_an_answer() -> None:
    action = proposal_for("Which plan does Anna have?", step(READ, CONTEXT), [step(READ, CONTEXT)])

    assert action == {"kind": "final", "answer": "[[charge]] [[window]]"}


def test_a_refused_refund_is_not_claimed() -> None:
    last = refund(5000.0, "error", error="refund_exceeds_last_charge", max_refund_usd=1200.0)

    action = proposal_for(GOAL, last, [last])

    assert action["answer"] == "Nothing was done: refund exceeds last charge."


@pytest.mark.parametrize(
    ("sentence", "proposed"),
    [
        ("Pay USD 800.00, four seats were in use.", 800.0),
        ("Make it 1,100 USD.", 1100.0),
        ("Not a case of ours.", None),
        ("As you proposed: USD 1,200.00.", None),
    ],
)
def test_a_person_who_names_an_amount_is_heeded(sentence: str, proposed: float | None) -> None:
    args = {"user_id": 42, "amount_usd": 1200.0, "reason": "Asked for"}
    call = {"kind": "tool", "name": "issue_refund", "args": args}
    block = {"rule": "person.sent_back", "sentence": sentence, "action": call}
    state = {"steps_completed": 1, "last_step": step(READ, CONTEXT)}

    inputs = {"goal": GOAL, "state_summary": state, "blocked": [block]}
    said = json.loads(ask_model("worker", inputs).text)

    assert said.get("args", {}).get("amount_usd") == proposed
    assert said["kind"] == ("tool" if proposed else "final")


@pytest.mark.parametrize("goal", ["Book a table for 50 USD.", "Plan a maximum of 300 USD a day."])
def test_demo_model_says_that_it_plays_scenarios(goal: str) -> None:
    action = proposal_for(goal)

    assert action == {"kind": "final", "answer": ONLY_SCENARIOS}


@pytest.mark.parametrize(
    ("goal", "customer", "amount"),
    [
        ("User Anna (user_id=42) requests a refund of 1200 USD", 42, 120_000),
        ("User Max (user_id=7) requests a refund of 49 USD for the monthly plan.", 7, 4900),
        ("Refund customer 7: $49", 7, 4900),
        ("Refund user #7 USD 1,200.50.", 7, 120_050),
        ("Refund customer id: 123, 20 dollars", 123, 2000),
        ("Please refund Max", 7, None),
        ("Please refund half of what Anna paid", 42, None),
        ("Refund $1.5k", 42, None),
        ("Refund order 77 for customer 7", 7, None),
        ("Anna paid $120: which invoice is that?", 42, None),
    ],
)
def test_a_goal_in_free_words_is_understood_as_far_as_it_goes(
    goal: str, customer: int, amount: int | None
) -> None:
    read, second, *_ = play(goal, "supervisor")

    assert read.args == {"user_id": customer}
    assert getattr(second, "args", {}).get("amount_minor") == amount


def test_the_demo_model_stays_out_where_a_server_is_configured() -> None:
    elsewhere = override_settings(OPENAI_BASE_URL="http://127.0.0.1:9/v1")

    with elsewhere, pytest.raises(llm.ModelFailed):
        ask_model("worker", {"goal": GOAL})


def test_it_takes_the_time_of_a_model_where_it_is_to_be_watched() -> None:
    began = time.monotonic()

    with override_settings(OPSCONSOLE_DEMO_PACE=0.1):
        ask_model("writer", {"goal": GOAL, "history": []})

    assert time.monotonic() - began >= 0.06
