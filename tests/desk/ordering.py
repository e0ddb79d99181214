"""A demo book and the orders that are placed against it."""

from datetime import UTC, datetime
from typing import Any

from agents.desks.refunds.models import Charge
from agents.models import Book
from tests.demo_book import open_demo_book

AT = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def demo_book() -> Book:
    return open_demo_book(at=AT)


def refund(book: Book, **other: Any) -> dict[str, Any]:
    """Return the arguments of a refund of 500.00 for Anna, updated by `other`."""
    return {
        "book_id": book.pk,
        "customer_number": 42,
        "amount_minor": 50000,
        "currency": "USD",
        "reason": "partly used",
        "key": f"run of book {book.pk}",
        "at": AT,
        **other,
    }


def letter(book: Book, **other: Any) -> dict[str, Any]:
    """Return the arguments of a mail to Anna about 500.00, updated by `other`."""
    return {
        "book_id": book.pk,
        "customer_number": 42,
        "amount_minor": 50000,
        "currency": "USD",
        "message": "Hello Anna,\n\nwe have refunded USD 500.00.",
        "key": f"mail of book {book.pk}",
        "at": AT,
        **other,
    }


def charge_of(book: Book, customer: int = 42) -> Charge:
    return Charge.objects.get(customer__book=book, customer__number=customer)


def standing(book: Book) -> tuple[int, int]:
    """Return the refunded and held amounts of Anna's charge."""
    charge = charge_of(book)
    return charge.refunded_minor, charge.held_minor
