"""Which words claim or announce a deed."""

import pytest

from agents.core.results import asks_only, claims_deed

TOOLS = ("transfer_money", "add_payee", "issue_refund")


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "The transfer of EUR 480.00 will be transferred to Nordlicht Energie.",
        "EUR 480.00 has been successfully transferred.",
        "I have paid the invoice INV-7.",
        "We'll now send EUR 50.00 to P-101.",
        "I will proceed: I will add the payee P-105.",
        "Anna was refunded USD 500.00.",
        "The payment was made. It was not late.",
    ],
)
def test_it_claims(text: str) -> None:
    assert claims_deed(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        "Delta Freight is blocked.",
        "The account has EUR 5,000.00, and it is completely free.",
        "The account has EUR 5,000.00, of which EUR 4,520.00 is free.",
        "Nothing was transferred, as the invoice is unknown.",
        "The refund could not be issued.",
        "I cannot pay this.",
        "The charge is 40 days old and the window has 30 days.",
        "If it were due, it would be paid.",
        "",
    ],
)
def test_it_claims_nothing(text: str) -> None:
    assert not claims_deed(text, TOOLS)


@pytest.mark.parametrize(
    ("goal", "only"),
    [
        ("How much of the account is free?", True),
        ("Which of our payees are blocked?", True),
        ("Was EUR 1.50 sent to P-101?", True),
        ("Can you refund Anna 500 USD?", False),
        ("How about paying INV-7?", False),
        ("Is INV-7 due? Then pay it.", False),
        ("What is due. Pay it?", False),
        ("Pay what is due.", False),
        ("What is due\nPay it?", False),
    ],
)
def test_a_question_for_facts_is_told_from_a_request(goal: str, only: bool) -> None:
    assert asks_only(goal) is only
