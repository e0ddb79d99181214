"""The demo model routes cases, errs only when told to, and reports findings."""

from __future__ import annotations

import asyncio
import json

import pytest

from agents import llm
from agents.core.requests import Json
from agents.core.routes import check_route
from agents.desks.refunds.profiles import SPECIALISTS

pytestmark = pytest.mark.usefixtures("nothing_is_configured")

BILLING, TECHNICAL, SALES = SPECIALISTS
REFUND = "Can Anna (user_id=42) get a refund for the charge of 10 days ago?"
REASON = "Pro monthly subscriptions are refundable within 14 days."


def ask_model(role: str, inputs: Json) -> str:
    question = llm.Question(role, inputs, as_json=role == "router")
    return asyncio.run(llm.ask(question, timeout=60)).text


def route_for(goal: str, forbidden: tuple[str, ...] = ()) -> Json:
    """Return the target that the demo model chooses, checked as a run would check it."""
    said = ask_model("router", {"goal": goal, "forbidden_targets": list(forbidden)})
    return check_route(json.loads(said), allowed=SPECIALISTS, forbidden=forbidden)["target"]


@pytest.mark.parametrize(
    ("goal", "forbidden", "target"),
    [
        (REFUND, (), BILLING),
        ("The API answers with error 500", (), TECHNICAL),
        ("Which plan has a discount for teams?", (), SALES),
        (f"{REFUND} Ask the wrong desk first.", (), TECHNICAL),
        (f"{REFUND} Ask the wrong desk first.", (TECHNICAL,), SALES),
        (REFUND, (BILLING,), TECHNICAL),
        ("What is the weather?", (BILLING, TECHNICAL), SALES),
    ],
)
def test_a_case_goes_to_whose_field_it_is(
    goal: str, forbidden: tuple[str, ...], target: str
) -> None:
    assert route_for(goal, forbidden) == target


def test_a_phrase_breaks_a_route() -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(ask_model("router", {"goal": "broken json", "forbidden_targets": []}))


FINDINGS: list[tuple[str, Json, str]] = [
    ("billing", {"refund_eligible": True, "refund_amount_usd": 49.0, "plan": "p"}, "49.00 USD"),
    ("billing", {"refund_eligible": False, "refund_amount_usd": 0.0, "plan": "free"}, "No refund"),
    (
        "technical",
        {"incident_id": "INC-4021", "service": "public-api", "state": "mitigated"},
        "INC-4021",
    ),
    (
        "sales",
        {"recommended_plan": "team_plus", "monthly_price_usd": 199.0},
        "Team plus costs 199.00 USD",
    ),
    ("other", {}, "looked into"),
]


@pytest.mark.parametrize(("domain", "found", "words"), FINDINGS)
def test_the_answer_tells_what_was_found(domain: str, found: Json, words: str) -> None:
    result = {**found, "reason": REASON, "next_update_in_minutes": 30}
    history = [{"observation": {"status": "done", "domain": domain, "result": result}}]

    text = ask_model("responder", {"goal": REFUND, "history": history})

    assert words in text
