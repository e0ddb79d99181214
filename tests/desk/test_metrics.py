"""The day's numbers, read by source; missing ones are not made up."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.desks.refunds import report
from agents.desks.refunds.books import refill
from agents.desks.refunds.models import DailyMetrics
from agents.models import Book
from tests.demo_book import open_demo_book

pytestmark = pytest.mark.django_db

DAY = "2026-02-26"


@pytest.fixture
def book() -> Book:
    return open_demo_book(at=timezone.now())


@pytest.mark.both
def test_a_demo_book_holds_the_day_that_its_report_is_about(book: Book) -> None:
    yesterday = timezone.now().date() - timedelta(days=1)
    scope = report.scope(book.pk)
    sales = report.sales(book_id=book.pk, day=DAY, region="us")

    assert scope == {"report_date": yesterday.isoformat(), "region": "US"}
    assert report.sales(book_id=book.pk, day=yesterday.isoformat(), region="US") == sales
    assert sales == {"gross_sales_minor": 18245000, "orders": 4820, "aov_minor": 3785}


def test_a_lasting_demo_book_is_filled_up_as_its_copies_are(book: Book) -> None:
    later = timezone.now() + timedelta(days=2)

    for _ in range(2):
        refill(book.pk, later)

    newest, fresh = report.choices(book.pk), report.choices(open_demo_book(at=later).pk)
    yesterday = (later.date() - timedelta(days=1)).isoformat()
    assert newest[:2] == [{"report_date": yesterday, "region": where} for where in ("US", "EU")]
    assert sorted(map(str, newest)) == sorted(map(str, fresh))


@pytest.mark.both
@pytest.mark.parametrize(
    ("read", "column"),
    [
        (report.sales, "gross_sales_minor"),
        (report.sales, "orders"),
        (report.payments, "failed_payments_per_mille"),
        (report.inventory, "out_of_stock_skus"),
    ],
)
def test_a_part_that_was_not_reported_is_not_guessed(
    book: Book, read: Callable[..., Any], column: str
) -> None:
    DailyMetrics.objects.filter(book=book).update(**{column: None})

    assert read(book_id=book.pk, day=DAY, region="US") is None


def test_another_book_has_other_numbers(book: Book) -> None:
    other = Book.objects.create(name="Other", created_at=timezone.now())

    assert report.scope(other.pk) is None
    assert report.sales(book_id=other.pk, day=DAY, region="US") is None
    assert report.seconds_of("payments", book_id=other.pk, first=True) == 0
    assert report.seconds_of("payments", book_id=book.pk, first=True) > 2


@pytest.mark.both
@pytest.mark.parametrize("change", [{"failed_payments_per_mille": 1001}, {"gross_sales_minor": -1}])
def test_numbers_that_cannot_be_are_refused(book: Book, change: dict[str, int]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        DailyMetrics.objects.filter(book=book).update(**change)


@pytest.mark.both
def test_a_day_of_a_region_is_there_once(book: Book) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        DailyMetrics.objects.create(book=book, day=date(2026, 2, 26), region="US", currency="USD")
