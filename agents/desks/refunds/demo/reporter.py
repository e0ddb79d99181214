"""The demo model as reporter: the facts of the day, and one recommendation."""

from __future__ import annotations

from collections.abc import Iterator

from agents.core.requests import Json
from agents.desks.refunds.demo.goals import Misfortune, read_goal
from agents.desks.refunds.demo.writer import usd


def reporter_reply(inputs: Json) -> str:
    """Return the brief that the aggregate supports."""
    if read_goal(inputs["goal"]).misfortune == Misfortune.ROSY:
        return "Health is green, there is nothing to do."
    return " ".join(_sentences(inputs["aggregate"]))


def _sentences(found: Json) -> Iterator[str]:
    sales, payments, inventory = found["sales"], found["payments"], found["inventory"]
    if "gross_sales_usd" in sales:
        yield f"Gross sales were {usd(sales['gross_sales_usd'])} in {sales['orders']} orders."
    if "failed_payment_rate" in payments:
        yield f"{payments['failed_payment_rate'] * 100:.1f}% of payments failed."
    if found["failed_tasks"]:
        names = ", ".join(task["worker"] for task in found["failed_tasks"])
        yield f"No facts came from {names}."
    yield _action(inventory, failed=bool(found["failed_tasks"]))


def _action(inventory: Json, *, failed: bool) -> str:
    gone = inventory.get("out_of_stock_skus")
    if gone:
        return f"Restock {', '.join(gone)}; it takes {inventory['restock_eta_days']} days."
    return "Run the report again." if failed else "Nothing has to be done today."
