"""The orchestrator over scripted replies: workers, known facts, and ends."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agents.core.limits import Limits
from agents.core.requests import Reply
from agents.desks.refunds.limits import STRICT, RefundLimits
from agents.desks.refunds.report import figures
from agents.desks.refunds.scenarios import WORKERS
from agents.patterns import Brief, result
from agents.sdk.desk_patterns import found_in
from agents.tools import specs

LIMITS = replace(STRICT.of("orchestrator", "refunds"), max_blocks=0)  # a block ends the run
SCOPE = {"report_date": "2026-02-26", "region": "US"}
SALES, PAYMENTS, INVENTORY = WORKERS
FACTS: dict[str, Any] = {
    SALES: {"gross_sales_minor": 18245000, "orders": 4820, "aov_minor": 3785},
    PAYMENTS: {"failed_payment_rate": 0.023, "chargeback_alerts": 3, "gateway_incident": "none"},
    INVENTORY: {"low_stock_skus": [], "out_of_stock_skus": [], "restock_eta_days": 2},
}
OPTIONAL = (INVENTORY,)


def plan(*workers: str) -> list[dict[str, Any]]:
    return [
        {"id": worker[:5], "worker": worker, "args": SCOPE, "critical": worker not in OPTIONAL}
        for worker in workers
    ]


def plan_replies(*workers: str) -> dict[str, Reply]:
    tasks = plan(*workers)
    review = {"allows": True, "action": {"kind": "plan", "tasks": tasks}}
    said = {"text": json.dumps({"kind": "plan", "tasks": tasks})}
    return {"plan": Reply(said), "plan/review": Reply(review)}


def task(worker: str, *replies: Any) -> dict[str, Reply]:
    """Return the replies to one task: its review and its attempts in order."""
    path = f"dispatch/{worker[:5]}/"
    action = {"kind": "tool", "name": worker, "args": SCOPE}
    review = Reply({"allows": True, "action": action, "key": f"{path}review"})
    said = replies or ({"status": "done", "worker": worker, "result": FACTS[worker]},)
    keys = [f"{path}work", f"{path}work#2", f"{path}work#3"]
    attempts = [r if isinstance(r, Reply) else Reply(r) for r in said]
    return {f"{path}review": review, **dict(zip(keys, attempts, strict=False))}


def brief_replies(text: str = "Fine.") -> dict[str, Reply]:
    review = {"allows": True, "action": {"answer": text}}
    return {"finalize": Reply({"text": text}), "finalize/review": Reply(review)}


def result_of(replies: dict[str, Reply], limits: Limits = LIMITS) -> dict[str, Any]:
    def figures_of(lines: Any, expected: Any) -> Any:
        return figures(found_in(SCOPE, lines, expected=expected, limits=RefundLimits()))

    brief = Brief("report", limits, specs("refunds"), SCOPE, figures_of)
    return result("orchestrator", brief, replies)


def whole_day(**changed: Any) -> dict[str, Reply]:
    """Return the replies when every worker answers, updated by `changed`."""
    tasks = {worker: task(worker, *changed.get(worker, ())) for worker in WORKERS}
    return {
        **plan_replies(*WORKERS),
        **tasks[SALES],
        **tasks[PAYMENTS],
        **tasks[INVENTORY],
        **brief_replies(),
    }


@pytest.mark.parametrize(
    ("worker", "facts", "health", "missing"),
    [
        (PAYMENTS, {"gateway_incident": "major"}, "red", ["payments.failed_payment_rate"]),
        (PAYMENTS, {"failed_payment_rate": 0.03, "gateway_incident": "none"}, "yellow", []),
        (PAYMENTS, {"failed_payment_rate": 0.01, "gateway_incident": "None"}, "green", []),
        (PAYMENTS, {"failed_payment_rate": 0.01}, "unknown", ["payments.gateway_incident"]),
        (PAYMENTS, {"warning": "payments_data_missing"}, "unknown", ["payments"]),
        (INVENTORY, {"out_of_stock_skus": ["SKU-1"]}, "yellow", []),
        (INVENTORY, {"warning": "inventory_data_missing"}, "unknown", ["inventory"]),
        (SALES, {"warning": "sales_data_missing"}, "unknown", ["sales"]),
    ],
)
def test_what_is_not_known_is_never_green(
    worker: str, facts: Any, health: str, missing: list[str]
) -> None:
    found = result_of(whole_day(**{worker: [{"status": "done", "result": facts}]}))

    assert found["aggregate"]["health"] == health
    assert found["aggregate"].get("missing", []) == missing
