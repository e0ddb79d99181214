"""The desk's sums are right after any calls in any order."""

from contextlib import suppress

import pytest
from django.db.models import Sum
from hypothesis import given
from hypothesis import strategies as st

from agents.desks.refunds import billing
from agents.desks.refunds.models import Refund
from agents.models import Book
from tests.desk.ordering import AT, charge_of, demo_book, refund

pytestmark = pytest.mark.django_db

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
def test_a_charge_always_says_what_its_refunds_add_up_to(
    calls: list[tuple[str, str, int]],
) -> None:
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
