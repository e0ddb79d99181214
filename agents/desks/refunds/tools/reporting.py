"""Report workers: each reads one source of a day's numbers, or reports that there are none."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from agents.core.requests import Json
from agents.desks.refunds import metrics
from agents.tools import Context, Touch, tool

_Check: TypeAlias = Callable[[Json], bool]


def _is_rate(value: Json) -> bool:
    return _is_count(value) and value <= 1


def _is_count(value: Json) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0


def _is_word(value: Json) -> bool:
    return value is None or isinstance(value, str)


def _are_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


# What a source may report. An absent part is missing data; one of another type is a broken reply.
_FIELDS: Mapping[str, _Check] = {
    "gross_sales_minor": _is_count,
    "gross_sales_usd": _is_count,
    "orders": _is_count,
    "aov_minor": _is_count,
    "aov_usd": _is_count,
    "failed_payment_rate": _is_rate,
    "chargeback_alerts": _is_count,
    "gateway_incident": _is_word,
    "low_stock_skus": _are_names,
    "out_of_stock_skus": _are_names,
    "restock_eta_days": _is_count,
    "warning": _is_word,
}


def in_contract(reply: Json, args: Json) -> bool:
    """Tell whether a worker's reply is valid: done, with facts of the known types."""
    facts = reply.get("result")
    if reply.get("status") != "done" or not isinstance(facts, dict):
        return False
    return all(check(facts[key]) for key, check in _FIELDS.items() if key in facts)


@tool(Touch.READ, valid=in_contract)
def sales_worker(context: Context, *, report_date: str, region: str) -> Json:
    """Read what was sold."""
    return _report("sales", metrics.sales, context, report_date, region)


@tool(Touch.READ, valid=in_contract)
def payments_worker(context: Context, *, report_date: str, region: str) -> Json:
    """Read how payments went."""
    return _report("payments", metrics.payments, context, report_date, region)


@tool(Touch.READ, valid=in_contract)
def inventory_worker(context: Context, *, report_date: str, region: str) -> Json:
    """Read what is short in stock."""
    return _report("inventory", metrics.inventory, context, report_date, region)


def _report(source: str, read: Callable[..., Json], context: Context, day: str, at: str) -> Json:
    # A plain function in its own thread, like most clients of reporting systems: it runs on after
    # its deadline, and its reply comes too late.
    first = context.nth == 1
    time.sleep(metrics.seconds_of(source, book_id=context.book_id, first=first))
    facts = read(book_id=context.book_id, day=day, region=at)
    result = facts or {"warning": f"{source}_data_missing"}
    return {"status": "done", "worker": f"{source}_worker", "result": result}
