"""The demo model plans and writes reports, and errs only when told to."""

from __future__ import annotations

import asyncio

import pytest

from agents import llm
from agents.core.requests import Json

pytestmark = pytest.mark.usefixtures("nothing_is_configured")

GOAL = "Prepare the morning report."
INPUTS = {"report_date": "2026-02-26", "region": "US", "max_tasks": 4}
DAY = {
    "report_date": "2026-02-26",
    "region": "US",
    "health": "yellow",
    "sales": {"gross_sales_usd": 182450.0, "orders": 4820, "aov_usd": 37.85},
    "payments": {"failed_payment_rate": 0.023, "chargeback_alerts": 3},
    "inventory": {"out_of_stock_skus": ["SKU-9033"], "restock_eta_days": 2},
    "failed_tasks": [],
}


def ask_model(role: str, inputs: Json) -> str:
    question = llm.Question(role, inputs, as_json=role == "planner")
    return asyncio.run(llm.ask(question, timeout=60)).text


@pytest.mark.parametrize(
    "day",
    [
        DAY,
        {**DAY, "sales": {}, "payments": {}},
        {**DAY, "inventory": {}, "failed_tasks": [{"worker": "inventory_worker"}]},
        {**DAY, "inventory": {"out_of_stock_skus": []}, "health": "green"},
    ],
)
def test_a_brief_says_what_the_day_bears_out(day: Json) -> None:
    brief = ask_model("reporter", {"goal": GOAL, "aggregate": day})

    assert brief
    assert ("182,450.00 USD" in brief) == bool(day["sales"])
