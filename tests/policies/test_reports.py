"""What a report's plan may hold, and what its brief may say."""

from typing import Any

import pytest

from agents.core.json_forms import InvalidPlan, check_plan
from agents.core.reviews import Facts
from agents.desks.refunds.limits import STRICT, RefundLimits
from agents.desks.refunds.report import figures, findings
from agents.desks.refunds.scenarios import WORKERS
from agents.policies import review
from agents.sdk.desk_patterns import found_in
from agents.tools import specs

LIMITS = STRICT.of("orchestrator", "refunds")
SCOPE = {"report_date": "2026-02-26", "region": "US"}
FACTS = Facts(scope=SCOPE)


def plan(*workers: str, critical: bool = True, **args: str) -> dict[str, Any]:
    tasks = [
        {"id": f"t{n}", "worker": worker, "args": {**SCOPE, **args}, "critical": critical}
        for n, worker in enumerate(workers)
    ]
    return {"kind": "plan", "tasks": tasks}


def test_plan_can_only_add_critical_workers() -> None:
    found = review(plan(*WORKERS, critical=False), FACTS, LIMITS)
    raised = review(plan(*WORKERS, critical=True), FACTS, LIMITS)

    assert (found.decision, found.deciding.reason) == ("revise", "critical_by_policy")
    assert [task["critical"] for task in found.action["tasks"]] == [True, True, False]
    assert [task["critical"] for task in raised.action["tasks"]] == [True, True, True]


def aggregate(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return figures(found_in(SCOPE, lines, expected=WORKERS, limits=RefundLimits()))


@pytest.mark.parametrize("incident", [None, "", "  "])
def test_an_incident_that_is_not_known_is_never_green(incident: Any) -> None:
    lines = [
        {"worker": WORKERS[0], "observation": {"result": {"gross_sales_minor": 1, "orders": 1}}},
        {
            "worker": WORKERS[1],
            "observation": {"result": {"failed_payment_rate": 0.0, "gateway_incident": incident}},
        },
        {"worker": WORKERS[2], "observation": {"result": {"out_of_stock_skus": []}}},
    ]

    found = aggregate([{**line, "status": "done"} for line in lines])

    assert (found["health"], found["missing"]) == ("unknown", ["payments.gateway_incident"])


@pytest.mark.proves("I10")
def test_a_source_that_holds_a_link_is_not_quoted_in_the_report() -> None:
    found = {
        "sales": {},
        "payments": {"gateway_incident": "Call +1 900 555 0199 or see evil.example"},
        "inventory": {"out_of_stock_skus": ["SKU-9033", "evil.example/x", "a b"]},
    }

    told = findings(found)

    assert told == (
        "Gateway incident: reported, in words that are not repeated here. "
        "Out of stock: SKU-9033 and 2 more."
    )


@pytest.mark.parametrize(
    ("payments", "inventory", "told"),
    [
        ({"gateway_incident": "card processor down"}, {}, "follow the gateway incident until pay"),
        ({"failed_payment_rate": None}, {}, "get the missing figures (payments.failed_payment_r"),
        ({"failed_payment_rate": 0.04}, {"out_of_stock_skus": ["A-1"]}, "find out why payments f"),
        ({}, {"out_of_stock_skus": ["A-1", "evil.example"]}, "restock A-1 and 1 more."),
        ({}, {"low_stock_skus": ["B-2"]}, "answer the chargeback alerts."),
        ({"chargeback_alerts": 0}, {"low_stock_skus": ["B-2"]}, "reorder B-2."),
        ({"chargeback_alerts": 0}, {}, "none is needed today."),
    ],
)
def test_a_report_names_the_alerts_and_one_action(
    payments: dict[str, Any], inventory: dict[str, Any], told: str
) -> None:
    of = {"failed_payment_rate": 0.0, "gateway_incident": "none", "chargeback_alerts": 3}
    results = (
        {"gross_sales_minor": 1, "orders": 1},
        {**of, **payments},
        {"out_of_stock_skus": [], "low_stock_skus": [], **inventory},
    )
    lines = [
        {"worker": worker, "status": "done", "observation": {"result": result}}
        for worker, result in zip(WORKERS, results, strict=True)
    ]

    said = findings(aggregate(lines))

    assert said.partition("Next action: ")[2].startswith(told)
    assert said.count("Next action") == 1
    assert f"Chargeback alerts: {payments.get('chargeback_alerts', 3)}." in said


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"id": "x" * 61}, "task_id"),
        ({"id": "a\u202eb"}, "task_id"),
        ({"worker": f" {WORKERS[0]} "}, ""),
        ({"args": {**SCOPE, "request_id": "evil"}}, f"extra_args:{WORKERS[0]}"),
        ({"args": {"region": "US"}}, f"missing_arg:{WORKERS[0]}:report_date"),
        ({"args": {**SCOPE, "region": 5}}, f"bad_arg_type:{WORKERS[0]}:region"),
        ({"args": {**SCOPE, "region": None}}, f"bad_arg_type:{WORKERS[0]}:region"),
    ],
)
def test_a_task_is_read_strictly(changed: dict[str, Any], reason: str) -> None:
    said = {"id": "t1", "worker": WORKERS[0], "args": SCOPE, "critical": True, **changed}
    document = {"kind": "plan", "tasks": [said]}

    if not reason:
        read = check_plan(document, specs=specs("refunds"), allowed=WORKERS, max_tasks=4)
        assert read[0]["worker"] == WORKERS[0]
        return
    with pytest.raises(InvalidPlan, match=reason):
        check_plan(document, specs=specs("refunds"), allowed=WORKERS, max_tasks=4)
