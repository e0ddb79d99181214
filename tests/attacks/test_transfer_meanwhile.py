"""Changes between a person's approval and the transfer: only what they saw is approved."""

from collections.abc import Callable
from datetime import date

import pytest

from agents.desks.bank.models import Payee
from agents.models import Escalation, Run
from tests.desks.bank import FIRST_PAYMENT, bank_scene, decide, euros, launch, postings
from tests.engine.scene import fresh, go

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def payee(run: Run) -> Payee:
    return Payee.objects.get(book=run.book_id, key="P-103")


def block_payee(run: Run) -> None:
    Payee.objects.filter(pk=payee(run).pk).update(is_blocked=True)


def delete_payee(run: Run) -> None:
    payee(run).delete()


def enter_payee_anew(run: Run) -> None:
    known = payee(run)
    known.delete()
    Payee.objects.create(book=run.book_id, key="P-103", name="Helios", entered_on=date(2020, 1, 1))


def rename_payee(run: Run) -> None:
    Payee.objects.filter(pk=payee(run).pk).update(name="Helios")


@pytest.mark.proves("I47")
@pytest.mark.parametrize(
    ("change", "end"),
    [
        (block_payee, "supervisor_block:payee_blocked"),
        (delete_payee, "supervisor_block:unknown_payee"),
        (enter_payee_anew, ""),
        (rename_payee, ""),
    ],
)
def test_a_payee_who_is_another_than_was_shown_is_not_paid(
    change: Callable[[Run], None], end: str
) -> None:
    scene = bank_scene()
    run = go(launch(scene, FIRST_PAYMENT))
    decide(scene, run)

    change(run)
    run = go(run)

    assert (postings(run), run.stop_reason) == ([], end)
    if not end:  # they are asked again, about the present payee
        again = Escalation.objects.get(run=run, state="open").review
        assert "bank.first_payment" in again["escalating"]
        assert "Helios (P-103) has never been paid" in str(again["rulings"])


@pytest.mark.proves("I47")
def test_twin_transfer_requests_are_not_both_paid_unseen() -> None:
    """Both were shown one earlier transfer; once the first is paid there are two."""
    scene = bank_scene(daily=euros("90000.00"))
    runs = [launch(scene, FIRST_PAYMENT) for _ in range(3)]
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(book_id=runs[0].book_id)
    first, second, third = (fresh(run) for run in runs)
    decide(scene, go(first))
    go(first)
    for run in (go(second), go(third)):
        decide(scene, run)

    for run in (second, third):
        go(run)

    assert [amount for _, amount in postings(first)] == [90000, 90000]
    again = Escalation.objects.get(run=third, state="open")
    assert again.review["deciding"]["reason"] == "possible_duplicate"
