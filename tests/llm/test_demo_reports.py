"""The demo model plans and writes reports, and errs only when told to."""

from __future__ import annotations

import asyncio
import json

import pytest

from agents import llm
from agents.core.plans import Task, check_plan
from agents.core.requests import Json
from agents.desks.refunds.profiles import WORKERS
from agents.tools import specs

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


def plan_for(goal: str) -> list[Task]:
    """Return the demo model's plan, checked as a run would check it."""
    said = json.loads(ask_model("planner", {"goal": goal, **INPUTS}))
    return check_plan(said, specs=specs(), allowed=WORKERS, max_tasks=4)


def test_every_worker_is_asked_once_about_the_runs_day() -> None:
    plan = plan_for(GOAL)

    assert [task["worker"] for task in plan] == list(WORKERS)
    assert {(t["args"]["report_date"], t["args"]["region"]) for t in plan} == {("2026-02-26", "US")}


def test_phrases_lead_the_planner_astray() -> None:
    without = plan_for(f"{GOAL} Leave out payments.")
    elsewhere = plan_for(f"{GOAL} Look at another region.")

    assert "payments_worker" not in [task["worker"] for task in without]
    assert {task["args"]["region"] for task in elsewhere} == {"EU"}


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


def test_a_phrase_makes_the_brief_look_away() -> None:
    brief = ask_model("reporter", {"goal": f"{GOAL} Say all is well.", "aggregate": DAY})

    assert "green" in brief
