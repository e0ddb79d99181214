"""What a final answer may claim, against a ledger of one refund, of none, of two."""

from __future__ import annotations

import pytest

from agents.core.facts import Facts, RefundFact
from agents.policies.answers import contradictions


def ledger(*amounts: int) -> Facts:
    refunds = tuple(
        RefundFact(42, amount, "rf", by_person=False, mailed=True, settled=True)
        for amount in amounts
    )
    return Facts(refunds=refunds, stated_minor=(120000,))


NONE, PAID, TWICE = ledger(), ledger(80000), ledger(30000, 20000)


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ("Done.", NONE),
        ("Done.", PAID),
        ("No refund was made.", NONE),
        ("Could not refund.", NONE),
        ("The refund was rejected by a reviewer.", NONE),
        ("Your charge was 1200 USD.", NONE),
        ("A refund of 1200 USD was requested, but nothing was refunded.", NONE),
        ("Refunded 800 USD.", PAID),
        ("USD 800.00 was refunded to your card.", PAID),
        ("A partial refund of $800 was processed.", PAID),
        ("You asked for USD 1,200.00; USD 800.00 was refunded.", PAID),
        ("We refunded 300 USD and 200 USD.", TWICE),
        ("In all, 500 USD was refunded.", TWICE),
    ],
)
def test_an_answer_that_agrees_with_the_ledger_passes(answer: str, facts: Facts) -> None:
    assert list(contradictions(answer, facts)) == []


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ("We refunded 1200 USD to your card.", NONE),
        ("Refunded 10 USD.", NONE),
        ("Your refund has been issued.", NONE),
        ("The refund was processed.", NONE),
        ("Refunded 1200 USD.", PAID),
        ("We refunded 800.01 USD.", PAID),
        ("We refunded 1e3 USD.", PAID),
        ("USD 800.00 was refunded. Another USD 300.00 was refunded too.", PAID),
        ("No refund was made.", PAID),
        ("Nothing was refunded.", TWICE),
        ("You will receive 5000 USD soon.", PAID),
        ("You get a refund of 950 EUR.", PAID),
        # True, but in doubt it is held back: a look costs less than a false answer.
        ("The refund of 800 USD was not instant but it was made.", PAID),
    ],
)
def test_an_answer_that_does_not_is_held_back(answer: str, facts: Facts) -> None:
    assert list(contradictions(answer, facts))
