"""Fill a demo's book."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db import transaction

from agents.db.inserts import insert_rows
from agents.desks.refunds.models import Charge, Customer, DailyMetrics, Subscription

CURRENCY = "USD"


@dataclass(frozen=True)
class _Person:
    """A demo customer; ages are days before the book is opened."""

    number: int
    name: str
    tier: str
    charge: tuple[str, int, int]  # plan, minor units, days ago
    subscription: tuple[str, int, int]  # plan, minor units a month, days since first paid


_PEOPLE = (
    _Person(
        42, "Anna", "enterprise", ("annual_enterprise", 120_000, 10), ("pro_monthly", 4900, 10)
    ),
    _Person(7, "Max", "pro", ("pro_monthly", 4900, 35), ("free", 0, 120)),
)


# The day of the demo's report, fixed because the recorded cases name it.
_DAY = {
    "day": date(2026, 2, 26),
    "region": "US",
    "currency": CURRENCY,
    "gross_sales_minor": 18_245_000,
    "orders": 4820,
    "failed_payments_per_mille": 23,
    "chargeback_alerts": 3,
    "low_stock_skus": ["SKU-4411", "SKU-8820"],
    "out_of_stock_skus": ["SKU-9033"],
    "restock_days": 2,
}


def fill_demo(book: int, at: datetime) -> None:
    """Enter the demo's customers, their charges dated from `at`, and the numbers of a day.

    So that a demo can be repeated, even next month.
    """
    with transaction.atomic():
        _enter(book, at)
        insert_rows(DailyMetrics(book_id=book, **_DAY))


def _enter(book: int, at: datetime) -> None:
    """Enter the demo customers with their charges and subscriptions."""
    customers = [
        Customer(
            book_id=book,
            number=person.number,
            name=person.name,
            email=f"{person.name.lower()}@example.com",
            country="US",
            tier=person.tier,
        )
        for person in _PEOPLE
    ]
    insert_rows(*customers)
    entered = list(zip(customers, _PEOPLE, strict=True))
    insert_rows(*(_charge(customer, *person.charge, at) for customer, person in entered))
    insert_rows(
        *(_subscription(customer, *person.subscription, at) for customer, person in entered)
    )


def _charge(customer: Customer, plan: str, amount: int, days: int, at: datetime) -> Charge:
    return Charge(
        customer=customer,
        plan=plan,
        amount_minor=amount,
        currency=CURRENCY,
        paid_at=at - timedelta(days=days),
    )


def _subscription(
    customer: Customer, plan: str, price: int, days: int, at: datetime
) -> Subscription:
    return Subscription(
        customer=customer,
        plan=plan,
        price_minor=price,
        currency=CURRENCY,
        first_paid_at=at - timedelta(days=days),
    )
