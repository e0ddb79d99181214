"""The demo model plays a desk's scenarios, and goals like them, to their end."""

import asyncio

import pytest
from django.test import override_settings

from agents import llm
from agents.core.requests import Json
from agents.desks.refunds.scenarios import play

pytestmark = pytest.mark.usefixtures("nothing_is_configured")

GOAL = "User Anna (user_id=42) requests a refund of 1200 USD for the annual plan."


def ask_model(role: str, inputs: Json) -> llm.ModelAnswer:
    return asyncio.run(llm.ask(llm.Question(role, inputs, role == "worker"), timeout=60))


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
