"""Sources of reports: each reads one part of a day's numbers, or reports that there are none."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from agents.desks.refunds import metrics
from agents.desks.refunds.declared import desk
from opsconsole.desks import Call, Json

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


def in_contract(facts: Json) -> bool:
    """Tell whether what was found is of the known types."""
    return all(check(facts[key]) for key, check in _FIELDS.items() if key in facts)


@desk.source(title="Sales worker", critical=True, valid=in_contract)
def sales_worker(call: Call, report_date: str, region: str) -> Json:
    """Read what was sold."""
    return _report("sales", metrics.sales, call, report_date, region)


@desk.source(title="Payments worker", critical=True, valid=in_contract)
def payments_worker(call: Call, report_date: str, region: str) -> Json:
    """Read how payments went."""
    return _report("payments", metrics.payments, call, report_date, region)


@desk.source(title="Inventory worker", valid=in_contract)
def inventory_worker(call: Call, report_date: str, region: str) -> Json:
    """Read what is short in stock."""
    return _report("inventory", metrics.inventory, call, report_date, region)


def _report(source: str, read: Callable[..., Json], call: Call, day: str, at: str) -> Json:
    # A plain function in its own thread, like most clients of reporting systems: it runs on after
    # its deadline, and its reply comes too late.
    first = call.nth == 1
    time.sleep(metrics.seconds_of(source, book_id=call.book, first=first))
    facts = read(book_id=call.book, day=day, region=at)
    return facts or {"warning": f"{source}_data_missing"}
