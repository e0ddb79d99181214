"""The demo model as planner: every worker once, unless the goal makes it err."""

from __future__ import annotations

import json

from agents.core.requests import Json
from agents.desks.refunds.demo.goals import Misfortune, read_goal

_WORKERS = (("sales_worker", True), ("payments_worker", True), ("inventory_worker", False))


def planner_reply(inputs: Json) -> str:
    """Return the plan as it would arrive: JSON, or broken JSON."""
    misfortune = read_goal(inputs["goal"]).misfortune
    args = {"report_date": inputs["report_date"], "region": inputs["region"]}
    if misfortune == Misfortune.OTHER_REGION:
        args["region"] = "EU"
    workers = [
        (name, critical)
        for name, critical in _WORKERS
        if not (misfortune == Misfortune.NO_PAYMENTS and name == "payments_worker")
    ]
    tasks = [
        {"id": f"t{number}", "worker": name, "args": args, "critical": critical}
        for number, (name, critical) in enumerate(workers, 1)
    ]
    plan = json.dumps({"kind": "plan", "tasks": tasks})
    return plan[: len(plan) // 2] if misfortune == Misfortune.BROKEN_JSON else plan
