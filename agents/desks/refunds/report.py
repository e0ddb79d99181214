"""The refund desk's morning report: its days, its figures in sentences, and its sources."""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from agents.core.requests import Json
from agents.desks.days import DEMO_SECONDS as DEMO_SECONDS
from agents.desks.days import FAILED_RATE, figures_of
from agents.desks.days import headline as headline_of
from agents.desks.refunds import books
from agents.desks.refunds.limits import in_usd
from agents.desks.refunds.models import DailyMetrics
from agents.models import Book
from agents.sdk.desk_patterns import Report, SourcesFound, repeatable

_SKU = re.compile(r"[\w-]{1,40}", re.ASCII)
_MOST = 60  # days of regions to choose from


def scope(book: int) -> dict[str, str] | None:
    """Return the newest day with numbers in a book, and its region."""
    return next(iter(choices(book, most=1)), None)


def choices(book: int, most: int = _MOST) -> list[dict[str, str]]:
    """Return the days and regions with numbers in a book.

    The newest first, and of a day the region that was entered first.
    """
    rows = DailyMetrics.objects.filter(book=book).order_by("-day", "pk")
    known = rows.values_list("day", "region")[:most]
    return [{"report_date": day.isoformat(), "region": region} for day, region in known]


def figures(results: SourcesFound) -> dict[str, Json]:
    """Return the facts of the day, its health, and what failed or is missing."""
    return figures_of(results, "minor", lambda part, name: _is_known(part.get(name)))


def headline(aggregate: Json) -> str:
    """Return the first sentence of a brief, which no model writes."""
    sentence = headline_of(aggregate)
    if aggregate.get("missing"):
        sentence += f" Partial report, without {', '.join(aggregate['missing'])}."
    return sentence


def findings(aggregate: Json) -> str:
    """Return the facts of the day in sentences, which no model writes either."""
    parts = [*_findings(aggregate["sales"], aggregate["payments"], aggregate["inventory"])]
    is_whole = "failed_tasks" in aggregate  # as `figures` makes it
    return " ".join([*parts, f"Next action: {_next_action(aggregate)}."] if is_whole else parts)


def _next_action(aggregate: Json) -> str:
    """Return the one action that the day's health calls for."""
    payments, inventory = aggregate["payments"], aggregate["inventory"]
    alerts, low = payments.get("chargeback_alerts"), _skus(inventory.get("low_stock_skus"))
    match aggregate["health"]:
        case "red":
            return "follow the gateway incident until payments run again"
        case "unknown":
            return f"get the missing figures ({', '.join(aggregate['missing'])}) and report again"
        case "yellow" if (payments.get("failed_payment_rate") or 0) >= FAILED_RATE:
            return "find out why payments fail"
        case "yellow":
            return f"restock {_skus(inventory['out_of_stock_skus'])}"
    if alerts:
        return "answer the chargeback alerts"
    return f"reorder {low}" if low else "none is needed today"


def _findings(sales: Json, payments: Json, inventory: Json) -> Iterator[str]:
    if "gross_sales_minor" in sales and _is_number(sales.get("orders")):
        gross = in_usd(sales["gross_sales_minor"])
        yield f"Gross sales were {gross} in {sales['orders']:,} orders."
    if _is_number(payments.get("failed_payment_rate")):
        yield f"{payments['failed_payment_rate'] * 100:.1f}% of payments failed."
    if _is_number(alerts := payments.get("chargeback_alerts")):
        yield f"Chargeback alerts: {alerts:,}."
    if _is_known(payments.get("gateway_incident")):
        yield f"Gateway incident: {repeatable(str(payments['gateway_incident']))}."
    gone = inventory.get("out_of_stock_skus")
    if gone:
        days = inventory.get("restock_eta_days")
        again = f"; restocking takes {days} days" if _is_number(days) else ""
        yield f"Out of stock: {_skus(gone)}{again}."
    elif gone is not None:
        yield "Nothing is out of stock."


def _skus(skus: Sequence[str] | None) -> str:
    """Return items in words; one that is not plain is only counted."""
    plain = [sku for sku in skus or () if _SKU.fullmatch(sku)]
    others = len(skus or ()) - len(plain)
    return " and ".join(filter(None, (", ".join(plain), f"{others} more" if others else "")))


def _is_known(value: Json) -> bool:
    """Tell whether a source gave a value; an empty list is one, an empty text is not."""
    if isinstance(value, float):
        return math.isfinite(value)
    return bool(value.strip()) if isinstance(value, str) else value is not None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


REPORT = Report(
    scope,
    figures,
    headline,
    findings,
    about="day or region",
    in_any_case=("region",),
    choices=choices,
    refill=books.refill,
)


# The day's numbers, each part from its own source, as in a reporting system.


def seconds_of(source: str, *, book_id: int, first: bool) -> float:
    """Return the seconds a source takes to answer; only a demo's sources are slow."""
    if not Book.objects.filter(pk=book_id, is_demo=True).exists():
        return 0.0
    return DEMO_SECONDS[source][0 if first else 1]


def sales(*, book_id: int, day: str, region: str) -> dict[str, Any] | None:
    """Return the sales, with the average order in minor units rounded half up, or None."""
    metrics = _day(book_id, day, region)
    if metrics is None or metrics.gross_sales_minor is None or not metrics.orders:
        return None
    return {
        "gross_sales_minor": metrics.gross_sales_minor,
        "orders": metrics.orders,
        "aov_minor": (2 * metrics.gross_sales_minor + metrics.orders) // (2 * metrics.orders),
    }


def payments(*, book_id: int, day: str, region: str) -> dict[str, Any] | None:
    """Return the figures on payments, or None."""
    metrics = _day(book_id, day, region)
    if metrics is None or metrics.failed_payments_per_mille is None:
        return None
    return {
        "failed_payment_rate": metrics.failed_payments_per_mille / 1000,
        "chargeback_alerts": metrics.chargeback_alerts,
        "gateway_incident": metrics.gateway_incident,
    }


def inventory(*, book_id: int, day: str, region: str) -> dict[str, Any] | None:
    """Return the items short in stock, or None."""
    metrics = _day(book_id, day, region)
    if metrics is None or metrics.out_of_stock_skus is None:
        return None
    return {
        "low_stock_skus": metrics.low_stock_skus,
        "out_of_stock_skus": metrics.out_of_stock_skus,
        "restock_eta_days": metrics.restock_days,
    }


def _day(book_id: int, day: str, region: str) -> DailyMetrics | None:
    """Return a day's row; an invalid date has none."""
    try:
        wanted = date.fromisoformat(day)
    except ValueError:
        return None
    days = DailyMetrics.objects.filter(book=book_id, day=wanted, region=region.upper())
    return days.first()
