"""Refunds: each key once, never more than was paid, in any order; and what the books tell."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum
from hypothesis import given
from hypothesis import strategies as st

from agents.desks.refunds import billing
from agents.desks.refunds.models import Charge, Customer, Refund
from agents.models import Book
from tests.desk.ordering import AT, charge_of, demo_book, refund, standing

pytestmark = pytest.mark.django_db


LATER = AT + timedelta(hours=1)
KEY = "the key"


@pytest.fixture
def book() -> Book:
    return demo_book()


def test_a_refund_that_was_not_held_is_paid_at_once(book: Book) -> None:
    receipt = billing.pay(**refund(book, key=KEY, reason="  partly used "))

    assert standing(book) == (50000, 0)
    assert (receipt.customer_number, receipt.amount_minor, receipt.currency) == (42, 50000, "USD")
    assert (receipt.key, receipt.reason) == (KEY, "partly used")
    assert (receipt.state, receipt.paid_at) == ("paid", AT)


@pytest.mark.both
@pytest.mark.proves("I28")
def test_paying_again_by_the_same_key_returns_the_first_receipt(book: Book) -> None:
    first = billing.pay(**refund(book))

    again = billing.pay(**refund(book, at=LATER))

    assert again == first
    assert standing(book) == (50000, 0)


@pytest.mark.both
def test_holding_again_by_the_same_key_holds_once(book: Book) -> None:
    first = billing.reserve(**refund(book))

    again = billing.reserve(**refund(book, at=LATER))

    assert again == first
    assert standing(book) == (0, 50000)


@pytest.mark.proves("I2")
@pytest.mark.parametrize("verb", [billing.reserve, billing.pay])
@pytest.mark.parametrize("before", [billing.reserve, billing.pay])
@pytest.mark.parametrize(
    "other",
    [
        {"customer_number": 7},
        {"customer_number": 10**30},
        {"amount_minor": 50001},
        {"amount_minor": 10**30},
        {"currency": "EUR"},
        {"reason": "another"},
    ],
    ids=str,
)
def test_a_key_used_with_other_arguments_is_an_error(
    book: Book, before: Any, verb: Any, other: dict[str, Any]
) -> None:
    before(**refund(book))
    stood = standing(book)

    with pytest.raises(billing.KeyReused):
        verb(**refund(book, **other))

    assert standing(book) == stood
    assert Refund.objects.count() == 1


@pytest.mark.proves("I7")
@pytest.mark.parametrize("verb", [billing.reserve, billing.pay])
@pytest.mark.parametrize(
    ("other", "code", "most"),
    [
        ({"customer_number": 1}, "refund_user_not_found:1", None),
        ({"customer_number": -42}, "refund_user_not_found:-42", None),
        ({"customer_number": 10**30}, f"refund_user_not_found:{10**30}", None),
        ({"amount_minor": 0}, "refund_amount_must_be_positive", None),
        ({"amount_minor": -1}, "refund_amount_must_be_positive", None),
        ({"amount_minor": 120001}, "refund_exceeds_last_charge", 120000),
        ({"amount_minor": 2**63 - 1}, "refund_exceeds_last_charge", 120000),
        ({"amount_minor": 10**30}, "refund_exceeds_last_charge", 120000),
        ({"customer_number": 7, "amount_minor": 4901}, "refund_exceeds_last_charge", 4900),
        ({"currency": "EUR"}, "currency_mismatch", None),
    ],
    ids=str,
)
def test_a_refund_that_cannot_be_is_refused_and_leaves_nothing(
    book: Book, verb: Any, other: dict[str, Any], code: str, most: int | None
) -> None:
    with pytest.raises(billing.RefundRefused) as refusal:
        verb(**refund(book, **other))

    assert (refusal.value.code, refusal.value.max_minor) == (code, most)
    assert standing(book) == (0, 0)
    assert not Refund.objects.exists()


@pytest.mark.both
def test_what_was_refunded_or_is_held_leaves_less(book: Book) -> None:
    billing.pay(**refund(book, amount_minor=50000, key="paid"))
    billing.reserve(**refund(book, amount_minor=40000, key="held"))

    with pytest.raises(billing.RefundRefused) as refusal:
        billing.pay(**refund(book, amount_minor=30001, key="too much"))
    billing.pay(**refund(book, amount_minor=30000, key="the rest"))

    assert refusal.value.max_minor == 30000
    assert standing(book) == (80000, 40000)


@pytest.mark.both
def test_held_refund_is_paid_on_its_own_charge(book: Book) -> None:
    billing.reserve(**refund(book))
    older = charge_of(book)
    newer = Charge.objects.create(
        customer=Customer.objects.get(book=book, number=42),
        plan="addon",
        amount_minor=9900,
        currency="USD",
        paid_at=AT,
    )

    billing.pay(**refund(book))

    older.refresh_from_db()
    newer.refresh_from_db()
    assert (older.refunded_minor, older.held_minor) == (50000, 0)
    assert (newer.refunded_minor, newer.held_minor) == (0, 0)


@pytest.mark.both
def test_a_call_that_comes_after_the_release_pays_nothing(book: Book) -> None:
    billing.reserve(**refund(book, key=KEY))
    billing.release(key=KEY, at=LATER)

    with pytest.raises(billing.RefundRefused, match="refund_released"):
        billing.pay(**refund(book, key=KEY, at=LATER))

    assert standing(book) == (0, 0)
    assert billing.reserve(**refund(book, key=KEY, at=LATER)).state == "released"
    assert standing(book) == (0, 0)


def newest_charge(**asked: Any) -> billing.ChargeFacts | None:
    known = billing.account(**asked)
    return known.charge if known else None


def test_a_refund_in_one_book_leaves_the_next_untouched() -> None:
    spent, fresh = demo_book(), demo_book()

    billing.pay(**refund(spent, amount_minor=120000))

    assert charge_of(spent).refunded_minor == 120000
    assert charge_of(fresh).refunded_minor == 0
    assert billing.account_with_refunds(book_id=fresh.pk, customer_number=42, at=AT)[1] == []
    assert fresh.is_demo
    assert fresh.is_isolated


def test_a_customer_of_another_book_is_nobody() -> None:
    there, here = demo_book(), demo_book()
    anna = Customer.objects.get(book=there, number=42)
    anna.number = 43
    anna.save(update_fields=["number"])

    context = billing.customer_context(book_id=here.pk, customer_number=43, at=AT)

    assert context is None


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


KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
# Around a third, half and all of the charge, where sums just fit or just do not.
AMOUNTS = st.sampled_from([1, 39999, 40000, 40001, 60000, 119999, 120000, 120001])
CALLS = st.lists(st.tuples(st.sampled_from(["reserve", "pay", "release"]), KEYS, AMOUNTS))


def call(book: Book, verb: str, key: str, amount: int) -> None:
    if verb == "release":
        billing.release(key=key, at=AT)
        return
    with suppress(billing.RefundRefused, billing.KeyReused):
        getattr(billing, verb)(**refund(book, key=key, amount_minor=amount))


def total(book: Book, state: str) -> int:
    rows = Refund.objects.filter(charge__customer__book=book, state=state)
    return rows.aggregate(total=Sum("amount_minor"))["total"] or 0


@pytest.mark.proves("I3")
@pytest.mark.slow
@given(calls=CALLS)
def test_a_charge_always_says_what_its_refunds_add_up_to(calls: list[tuple[str, str, int]]) -> None:
    book = demo_book()
    ends: dict[str, str] = {}

    for verb, key, amount in calls:
        call(book, verb, f"{key} of {book.pk}", amount)

        charge = charge_of(book)
        assert charge.refunded_minor == total(book, "paid")
        assert charge.held_minor == total(book, "held")
        assert charge.refunded_minor + charge.held_minor <= charge.amount_minor
        now = dict(Refund.objects.filter(charge=charge).values_list("key", "state"))
        left = {key for key, state in ends.items() if now.get(key) != state}
        assert not left, "paid and released are final"
        ends = {key: state for key, state in now.items() if state != "held"}
