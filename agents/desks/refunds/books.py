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


_RECORDED = date(2026, 2, 26)  # named by the recorded cases
_DAYS = 3  # up to yesterday
_DAY = {
    "currency": CURRENCY,
    "gross_sales_minor": 18_245_000,
    "orders": 4820,
    "failed_payments_per_mille": 23,
    "chargeback_alerts": 3,
    "low_stock_skus": ["SKU-4411", "SKU-8820"],
    "out_of_stock_skus": ["SKU-9033"],
    "restock_days": 2,
}
_GREEN = {
    "US": {**_DAY, "chargeback_alerts": 1, "out_of_stock_skus": []},
    "EU": {**_DAY, "gross_sales_minor": 9_130_500, "orders": 2510, "out_of_stock_skus": []},
}


def fill_demo(book: int, at: datetime) -> None:
    """Enter the demo's customers, and charges and daily numbers dated from `at`.

    So that a demo can be repeated, even next month.
    """
    with transaction.atomic():
        _enter(book, at)
        fill_days(book, at)


@transaction.atomic
def refill(book: int, at: datetime) -> None:
    """Give a demo's lasting book the days of those that are filled now, from which it is copied."""
    of_book = DailyMetrics.objects.filter(book=book).exclude(day=_RECORDED)
    of_book.filter(day__lt=at.date() - timedelta(days=_DAYS)).delete()
    fill_days(book, at)


def fill_days(book: int, at: datetime) -> None:
    """Enter the numbers of the days up to yesterday that a demo's book lacks.

    Yesterday's in the US are those of the scenarios; the others are green.
    """
    yesterday = at.date() - timedelta(days=1)
    days = [(yesterday - timedelta(days=ago), region) for ago in range(_DAYS) for region in _GREEN]
    rows = [
        DailyMetrics(
            book_id=book,
            day=day,
            region=region,
            **(_DAY if region == "US" and day in (yesterday, _RECORDED) else _GREEN[region]),
        )
        for day, region in (*days, (_RECORDED, "US"))
    ]
    DailyMetrics.objects.bulk_create(rows, ignore_conflicts=True)


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
