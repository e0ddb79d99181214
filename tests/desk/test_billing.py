"""Reading books: who a customer is, what they paid, and how long ago."""

from datetime import timedelta
from typing import Any

import pytest

from agents.desks.refunds import billing
from agents.desks.refunds.models import Charge, Customer, Subscription
from tests.desk.ordering import AT, charge_of, demo_book, refund

pytestmark = pytest.mark.django_db

NOBODY = [1, 0, -42, 2**63, -(2**63) - 1, 10**30, -(10**30)]
ANNA: dict[str, Any] = {
    "user": {"id": 42, "name": "Anna", "country": "US", "tier": "enterprise"},
    "billing": {
        "plan": "annual_enterprise",
        "currency": "USD",
        "last_charge_minor": 120000,
        "days_since_payment": 10,
    },
}


def newest_charge(**asked: Any) -> billing.ChargeFacts | None:
    known = billing.account(**asked)
    return known.charge if known else None


@pytest.mark.parametrize(
    ("number", "plan", "price", "days"), [(42, "pro_monthly", 4900, 10), (7, "free", 0, 120)]
)
def test_a_demo_customer_has_a_subscription(number: int, plan: str, price: int, days: int) -> None:
    book = demo_book()

    kept = Subscription.objects.get(customer__book=book, customer__number=number)

    assert (kept.plan, kept.price_minor, kept.currency) == (plan, price, "USD")
    assert kept.first_paid_at == AT - timedelta(days=days)


def test_a_refund_in_one_book_leaves_the_next_untouched() -> None:
    spent, fresh = demo_book(), demo_book()

    billing.pay(**refund(spent, amount_minor=120000))

    assert charge_of(spent).refunded_minor == 120000
    assert charge_of(fresh).refunded_minor == 0
    assert billing.account_with_refunds(book_id=fresh.pk, customer_number=42, at=AT)[1] == []
    assert fresh.is_demo
    assert fresh.is_isolated


@pytest.mark.both
@pytest.mark.parametrize("number", NOBODY)
def test_a_number_that_is_nobodys_reads_as_unknown(number: int) -> None:
    book = demo_book()
    asked: dict[str, Any] = {"book_id": book.pk, "customer_number": number}

    assert billing.customer_context(**asked, at=AT) is None
    assert newest_charge(**asked, at=AT) is None
    assert billing.customer_name(**asked) == ""
    assert billing.account_with_refunds(**asked, at=AT) == (None, [])


def test_a_customer_of_another_book_is_nobody() -> None:
    there, here = demo_book(), demo_book()
    anna = Customer.objects.get(book=there, number=42)
    anna.number = 43
    anna.save(update_fields=["number"])

    context = billing.customer_context(book_id=here.pk, customer_number=43, at=AT)

    assert context is None


def test_a_customer_who_never_paid_has_no_charge() -> None:
    book = demo_book()
    charge_of(book).delete()

    context = billing.customer_context(book_id=book.pk, customer_number=42, at=AT)

    assert context == {"user": ANNA["user"], "billing": {}}


@pytest.mark.both
@pytest.mark.parametrize("lock", [False, True])
def test_newest_charge_counts_then_the_later_entry(lock: bool) -> None:
    book = demo_book()
    anna = Customer.objects.get(book=book, number=42)
    entered = [
        Charge.objects.create(
            customer=anna, plan=plan, amount_minor=1000, currency="USD", paid_at=AT - age
        )
        for plan, age in [
            ("older", timedelta(days=90)),
            ("first", timedelta(days=1)),
            ("second", timedelta(days=1)),
        ]
    ]

    charge = newest_charge(book_id=book.pk, customer_number=42, at=AT, lock=lock)

    assert charge is not None
    assert charge.charge_id == entered[-1].pk


@pytest.mark.both
def test_what_is_held_cannot_be_refunded_again() -> None:
    book = demo_book()
    billing.pay(**refund(book, amount_minor=20000, key="paid"))
    billing.reserve(**refund(book, amount_minor=30000, key="held"))

    charge = newest_charge(book_id=book.pk, customer_number=42, at=AT)

    assert charge is not None
    assert (charge.refunded_minor, charge.held_minor) == (20000, 30000)
    assert charge.refundable_minor == 70000
