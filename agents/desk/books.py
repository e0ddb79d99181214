"""Open a book."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db import transaction

from agents.desk.models import Book, Charge, Customer, DailyMetrics, Subscription

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


# The one day that the demo's report is about. It has a date of its own, because the recorded
# cases name it.
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


def open_book(name: str, *, at: datetime) -> Book:
    """Return an empty book, for customers and charges that come from elsewhere."""
    return Book.objects.create(name=name, created_at=at)


def open_demo_book(*, at: datetime) -> Book:
    """Return a fresh, isolated copy of the demo customers, their charges dated from `at`.

    So a demo works the tenth time, and next month.
    """
    with transaction.atomic():
        book = Book.objects.create(name="Demo", is_demo=True, is_isolated=True, created_at=at)
        for person in _PEOPLE:
            _enter(book, person, at)
        DailyMetrics.objects.create(book=book, **_DAY)
        return book


def _enter(book: Book, person: _Person, at: datetime) -> None:
    customer = Customer.objects.create(
        book=book,
        number=person.number,
        name=person.name,
        email=f"{person.name.lower()}@example.com",
        country="US",
        tier=person.tier,
    )
    plan, amount, days = person.charge
    Charge.objects.create(
        customer=customer,
        plan=plan,
        amount_minor=amount,
        currency=CURRENCY,
        paid_at=at - timedelta(days=days),
    )
    plan, price, days = person.subscription
    Subscription.objects.create(
        customer=customer,
        plan=plan,
        price_minor=price,
        currency=CURRENCY,
        first_paid_at=at - timedelta(days=days),
    )
