"""What the desk's tables refuse, whatever the code does."""

from typing import Any

import pytest
from django.apps import apps
from django.db import models

from agents.desks.refunds import billing, mail
from agents.desks.refunds.models import Charge, Customer, Refund, SentMail, Subscription
from agents.models import Book
from tests.desk.ordering import AT, charge_of, demo_book, letter, refund
from tests.engine.test_constraints import is_refused

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def book() -> Book:
    """Return a book with a refund and a mail of each state."""
    book = demo_book()
    for state, change in [("paid", billing.pay), ("held", billing.reserve)]:
        change(**refund(book, key=state, amount_minor=1000))
    billing.reserve(**refund(book, key="released", amount_minor=1000))
    billing.release(key="released", at=AT)
    mail.send_refund_mail(**letter(book, key="sent"))
    return book


@pytest.mark.proves("I3")
@pytest.mark.parametrize(
    "columns",
    [
        {"amount_minor": 0},
        {"amount_minor": -1},
        {"amount_minor": 1999},  # 1000 is refunded and 1000 is held
        {"refunded_minor": -1},
        {"held_minor": -1},
        {"refunded_minor": 119001},
        {"held_minor": 119001},
    ],
    ids=str,
)
def test_a_charge_gives_back_no_more_than_was_paid(book: Book, columns: dict[str, int]) -> None:
    assert is_refused(Charge.objects.filter(pk=charge_of(book).pk), **columns)


@pytest.mark.parametrize(
    ("state", "columns"),
    [
        ("held", {"amount_minor": 0}),
        ("held", {"state": "lost"}),
        ("held", {"state": "paid"}),
        ("held", {"state": "released"}),
        ("held", {"paid_at": AT}),
        ("paid", {"paid_at": None}),
        ("paid", {"released_at": AT}),
        ("released", {"released_at": None}),
        ("released", {"state": "paid"}),
        ("released", {"key": "paid"}),
    ],
    ids=str,
)
def test_a_refund_fits_its_state_and_its_key(
    book: Book, state: str, columns: dict[str, Any]
) -> None:
    assert is_refused(Refund.objects.filter(key=state), **columns)


@pytest.mark.parametrize(
    "columns",
    [{"amount_minor": 0}, {"state": "sending"}, {"state": "lost"}, {"sent_at": None}],
    ids=str,
)
def test_a_mail_fits_its_state(book: Book, columns: dict[str, Any]) -> None:
    assert is_refused(SentMail.objects.filter(key="sent"), **columns)


def test_a_number_names_one_customer_of_a_book(book: Book) -> None:
    assert is_refused(Customer.objects.filter(book=book, number=7), number=42)


def test_a_subscription_costs_nothing_or_more(book: Book) -> None:
    assert is_refused(Subscription.objects.filter(customer__book=book), price_minor=-1)


@pytest.mark.proves("I5")
def test_money_is_whole_minor_units_in_every_table() -> None:
    columns = [
        field
        for model in apps.get_app_config("desk").get_models()
        for field in model._meta.get_fields()
        if isinstance(field, models.Field)
    ]
    money = [field for field in columns if field.name.endswith("_minor")]

    assert len(money) == 7
    assert all(type(field) is models.BigIntegerField for field in money)
    assert not [f for f in columns if isinstance(f, (models.FloatField, models.DecimalField))]
