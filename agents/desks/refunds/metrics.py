"""Read the day's numbers, each field from its own source, like a reporting system."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from agents.desks.refunds.models import DailyMetrics
from agents.models import Book

# Seconds that the demo's sources take: for their first call in a run, and for later ones. The
# payments source at first exceeds a task's timeout, to show a retry.
DEMO_SECONDS = {"sales": (0.4, 0.4), "payments": (2.6, 0.3), "inventory": (0.5, 0.5)}

MOST = 60  # days of regions to choose from


@dataclass(frozen=True)
class ReportScope:
    """The day and region of a report."""

    day: date
    region: str


def newest_day(*, book_id: int) -> ReportScope | None:
    """Return the newest day with numbers in a book, or None."""
    return next(iter(newest_days(book_id=book_id, most=1)), None)


def newest_days(*, book_id: int, most: int = MOST) -> list[ReportScope]:
    """Return the newest days with numbers in a book, of a day the region that was entered first."""
    found = DailyMetrics.objects.filter(book=book_id).order_by("-day", "pk")
    return [ReportScope(*one) for one in found.values_list("day", "region")[:most]]


def seconds_of(source: str, *, book_id: int, first: bool) -> float:
    """Return the seconds a source takes to answer; only a demo's sources are slow."""
    if not Book.objects.filter(pk=book_id, is_demo=True).exists():
        return 0.0
    return DEMO_SECONDS[source][0 if first else 1]


def sales(*, book_id: int, day: str, region: str) -> dict[str, Any] | None:
    """Return the sales, with the average order in minor units rounded half up, or None."""
    found = _day(book_id, day, region)
    if found is None or found.gross_sales_minor is None or not found.orders:
        return None
    return {
        "gross_sales_minor": found.gross_sales_minor,
        "orders": found.orders,
        "aov_minor": (2 * found.gross_sales_minor + found.orders) // (2 * found.orders),
    }


def payments(*, book_id: int, day: str, region: str) -> dict[str, Any] | None:
    """Return the figures on payments, or None."""
    found = _day(book_id, day, region)
    if found is None or found.failed_payments_per_mille is None:
        return None
    return {
        "failed_payment_rate": found.failed_payments_per_mille / 1000,
        "chargeback_alerts": found.chargeback_alerts,
        "gateway_incident": found.gateway_incident,
    }


def inventory(*, book_id: int, day: str, region: str) -> dict[str, Any] | None:
    """Return the items short in stock, or None."""
    found = _day(book_id, day, region)
    if found is None or found.out_of_stock_skus is None:
        return None
    return {
        "low_stock_skus": found.low_stock_skus,
        "out_of_stock_skus": found.out_of_stock_skus,
        "restock_eta_days": found.restock_days,
    }


def _day(book_id: int, day: str, region: str) -> DailyMetrics | None:
    """Return a day's row; an invalid date has none."""
    try:
        wanted = date.fromisoformat(day)
    except ValueError:
        return None
    days = DailyMetrics.objects.filter(book=book_id, day=wanted, region=region.upper())
    return days.first()
