"""The demo model handles a case to its end, and misbehaves only when told to."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from django.test import override_settings

from agents import llm
from agents.core.actions import check_action
from agents.core.money import to_model_units
from agents.core.requests import Json
from agents.desks.refunds.demo.goals import read_goal
from agents.desks.refunds.profiles import REFUND_TOOLS
from agents.llm.prices import cost_micro_usd
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
    return to_model_units(check_action(said, specs=SPECS, proposable=REFUND_TOOLS))


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

    assert [action.get("name", "final") for action in actions] == [*REFUND_TOOLS, "final"]
    assert actions[1]["args"]["amount_usd"] == 1200.0
    assert actions[1]["args"]["reason"]
    assert actions[2]["args"]["amount_usd"] == 800.0
    assert actions[3]["answer"] == (
        "800.00 USD was refunded to customer 42; the customer was told by email."
        " A person set the amount."
    )


def test_an_answer_is_labelled_as_the_demos_and_has_the_price_of_a_small_model() -> None:
    answer = ask_model("writer", {"goal": GOAL, "history": []})

    assert (answer.model, answer.demo) == ("demo", True)
    tokens = {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out}
    assert answer.cost_micro_usd == cost_micro_usd("gpt-4.1-mini", **tokens)
    assert answer.tokens_in > 0
    assert answer.tokens_out > 0


def test_the_same_question_has_the_same_answer() -> None:
    assert proposal_for(GOAL, step(READ, CONTEXT)) == proposal_for(GOAL, step(READ, CONTEXT))


def test_the_whole_charge_is_refunded_where_no_amount_is_named() -> None:
    action = proposal_for("Please refund customer 42", step(READ, CONTEXT))

    assert action["args"]["amount_usd"] == 1200.0


def test_a_question_that_asks_for_no_money_gets_an_answer() -> None:
    action = proposal_for("Which plan does Anna have?", step(READ, CONTEXT))

    assert action["kind"] == "final"
    assert action["answer"] == "Customer 42 is Anna. [[charge]] [[window]]"
    erased = {**CONTEXT, "user": {**CONTEXT["user"], "name": ""}}
    nameless = proposal_for("Which plan does customer 42 have?", step(READ, erased))
    assert nameless["answer"] == "Customer 42 has no name on file. [[charge]] [[window]]"


def test_an_unknown_customer_is_refunded_nothing() -> None:
    seen = {"error": "context_not_found_for_user:9"}

    action = proposal_for("Refund customer 9", step(READ, seen))

    assert action["answer"] == "Nothing was refunded: customer 9 is not known."


@pytest.mark.parametrize("goal", ["Refund customer 7", "Which plan has customer 7?"])
def test_a_customer_without_a_charge_is_known(goal: str) -> None:
    action = proposal_for(goal, step(READ, {"user": {"name": "Max"}, "billing": None}))

    assert action["answer"] == "Customer 7 is Max. There is no charge to refund."


def test_a_refused_refund_is_not_claimed() -> None:
    last = refund(5000.0, "error", error="refund_exceeds_last_charge", max_refund_usd=1200.0)

    action = proposal_for(GOAL, last)

    assert action["answer"] == "Nothing was refunded: the amount is more than the last charge."


def test_a_refund_without_a_mail_says_so() -> None:
    args = {"user_id": 42, "amount_usd": 800.0, "message": "Hello"}
    mail = {"kind": "tool", "name": "send_refund_email", "args": args}

    action = proposal_for(GOAL, step(mail, {"status": "error", "error": "mail_refused"}))

    assert action["answer"] == "800.00 USD was refunded to customer 42; no email was sent."


@pytest.mark.parametrize(
    ("paid", "answer"),
    [
        ([], "Nothing was refunded."),
        ([800.0], "800.00 USD was refunded to customer 42; no email was sent."),
    ],
)
def test_the_writer_tells_what_the_history_shows(paid: list[float], answer: str) -> None:
    history = [step(READ, CONTEXT), refund(5000.0, "error"), *map(refund, paid)]

    text = ask_model("writer", {"goal": GOAL, "history": history}).text

    assert text == answer


def test_a_phrase_makes_it_claim_a_refund_that_was_never_made() -> None:
    action = proposal_for(f"Falsely claim a refund. {GOAL}", step(READ, CONTEXT))

    assert action == {"kind": "final", "answer": "1,200.00 USD was refunded to customer 42."}


def test_a_phrase_makes_it_limit_the_rate() -> None:
    with pytest.raises(llm.ModelFailed) as raised:
        ask_model("worker", {"goal": f"{GOAL} Meet the model rate limit."})

    assert (raised.value.reason, raised.value.retry_after) == ("llm_rate_limited", 1)


@pytest.mark.parametrize(
    ("goal", "customer", "amount"),
    [
        ("User Anna (user_id=42) requests a refund of 1200 USD", 42, 1200.0),
        ("User Max (user_id=7) requests a refund of 49 USD for the monthly plan.", 7, 49.0),
        ("Refund customer 7: $49", 7, 49.0),
        ("Refund user #7 USD 1,200.50.", 7, 1200.5),
        ("Refund customer id: 123, 20 dollars", 123, 20.0),
        ("Please refund Max", 7, None),
        ("Please refund half of what Anna paid", 42, None),
        ("Please refund the last charge", 42, None),
        ("Refund -50 USD", 42, -50.0),
        ("Refund 10.005 USD", 42, 10.005),  # not money, which the parser has to say
        ("Refund $1.5k", 42, None),
        ("Refund order 77 for customer 7", 7, None),
        ("Refund the maximum", 42, None),
    ],
)
def test_a_goal_in_free_words_is_understood_as_far_as_it_goes(
    goal: str, customer: int, amount: float | None
) -> None:
    understood = read_goal(goal)

    assert (understood.customer, understood.amount_usd) == (customer, amount)
    assert understood.wants_refund
    assert understood.misfortune is None


@pytest.mark.parametrize(
    "goal",
    [
        "Anna wants to claim a refund, keep her in the loop",
        "Refund 49 USD: the charge belongs to another customer",
        "Refund Max, he hit a rate limit on his plan",
    ],
)
def test_everyday_words_bring_no_misfortune(goal: str) -> None:
    assert read_goal(goal).misfortune is None


def test_the_demo_model_stays_out_where_a_server_is_configured() -> None:
    elsewhere = override_settings(OPENAI_BASE_URL="http://127.0.0.1:9/v1")

    with elsewhere, pytest.raises(llm.ModelFailed):
        ask_model("worker", {"goal": GOAL})


def test_it_takes_the_time_of_a_model_where_it_is_to_be_watched() -> None:
    began = time.monotonic()

    with override_settings(OPSCONSOLE_DEMO_PACE=0.1):
        ask_model("writer", {"goal": GOAL, "history": []})

    assert time.monotonic() - began >= 0.06
