"""Processes use one key at the same moment: the desk acts once and tells all."""

from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings

from agents.desks.refunds import billing, mail
from agents.desks.refunds.models import Refund
from agents.models import Book
from tests.desk.ordering import demo_book, refund, standing
from tests.processes import Contenders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

ROUNDS = 3


@pytest.fixture
def book() -> Book:
    return demo_book()


@pytest.mark.parametrize("_round", range(ROUNDS))
@pytest.mark.parametrize("amount", [120000, 10000], ids=["all of it", "with room for more"])
def test_one_key_pays_once_and_all_are_told(
    book: Book, crowd: Contenders, amount: int, _round: int
) -> None:
    """All get its result: without room no refusal, and with room what they held is released."""
    said = crowd.meet("tests.desk.contenders:pays", [[book.pk, amount, "one key"]] * 6)

    assert said == [Refund.objects.get().reference] * 6
    assert standing(book) == (amount, 0)


@pytest.mark.parametrize("_round", range(ROUNDS))
def test_a_held_refund_is_either_paid_or_released(
    book: Book, crowd: Contenders, _round: int
) -> None:
    reference = billing.reserve(**refund(book, key="one key")).reference
    verbs = ["pay", "release"] * 3

    said = crowd.meet("tests.desk.contenders:settles", [[book.pk, v, "one key"] for v in verbs])

    paid, released = said[::2], sorted(said[1::2])
    if paid == [reference] * 3:
        assert released == ["nothing to release"] * 3
        assert standing(book) == (50000, 0)
    else:
        assert paid == ["refund_released"] * 3
        assert released == ["nothing to release"] * 2 + ["released"]
        assert standing(book) == (0, 0)


@pytest.mark.proves("F8")
@pytest.mark.parametrize("_round", range(ROUNDS))
def test_one_key_sends_one_mail(book: Book, crowd: Contenders, _round: int) -> None:
    """A caller that comes while the mail is being sent cannot know its outcome."""
    key = str(uuid4())  # other tests' letters are in the same folder

    said = crowd.meet("tests.desk.contenders:mails", [[book.pk, key]] * 6)

    receipt = mail.find(key=key)
    assert receipt is not None
    assert receipt.state == "sent"
    assert receipt.reference in said
    assert set(said) <= {receipt.reference, "unknown"}
    folder = Path(settings.EMAIL_FILE_PATH)
    assert sum(key in letter.read_text() for letter in folder.iterdir()) == 1
