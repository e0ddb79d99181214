"""Amounts: a strict parser for text, one for people, one exact conversion for numbers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.money import (
    MAX_MINOR,
    BadAmount,
    format_money,
    minor_of_number,
    minor_of_text,
    minor_of_typed,
    plain_amount,
    to_model_units,
)


@pytest.mark.parametrize("text", ["1000000000", "5.", "½", "5\x00", "USD 5", ""])
def test_text_that_is_no_amount(text: str) -> None:
    with pytest.raises(BadAmount, match="up to 9 digits"):
        minor_of_text(text, "USD")


TYPED = {
    "USD": {
        "1,000.50": 100050,
        "1,000.5": 100050,
        "USD 800": 80000,
        "usd800": 80000,
        "800 USD": 80000,
        "$800": 80000,
        "$ 1,000": 100000,
        "1,000": 100000,
        "1 000": 100000,
        "1\u202f000,50": 100050,
        "1'000.50": 100050,
        "1,5": 150,
        "1.000,50": 100050,
        "1,000,000": 100000000,
        "1.000.000": 100000000,
        "0,50": 50,
        "0.500": 50,
        "1.000": "“1.000” is USD 1,000.00 or USD 1.00",
        "USD 1.500": "“USD 1.500” is USD 1,500.00 or USD 1.50",
        "1.234": "“1.234” is USD 1,234.00 or 1.234: write USD and all digits",
        "EUR 800": "not in USD",
        "€800": "not in USD",
        "$800 USD": "up to 9",
        "1,000.505": "up to 9",
        "1,00,000": "up to 9",
        "1,000 000": "up to 9",
        "1234.567": "up to 9",
        "-5": "up to 9",
        "1e3": "up to 9",
        "٣٠٠": "up to 9",
        "": "up to 9",
        "1000000000": "up to 9",
    },
    "JPY": {
        "JPY 1,200": 1200,
        "¥1200": 1200,
        "1 200": 1200,
        "1,200,000": 1200000,
        "1.200": "“1.200” is JPY 1,200 or 1.200",
        "1.000": "“1.000” is JPY 1,000 or JPY 1",
        "1.5": "up to 9",
        "1,5": "up to 9",
        "1200.00": 1200,
    },
    "BHD": {
        "1.234": 1234,
        "BHD 1,234.000": 1234000,
        "1,5": 1500,
        "1,000": "“1,000” is BHD 1,000.000 or BHD 1.000",
        "1 234": 1234000,
        "1.2345": "up to 9",
    },
}


@pytest.mark.parametrize(
    ("currency", "text", "read"),
    [(currency, text, read) for currency, rows in TYPED.items() for text, read in rows.items()],
)
def test_amount_is_read_as_people_write_it(currency: str, text: str, read: int | str) -> None:
    if isinstance(read, str):
        with pytest.raises(BadAmount, match=re.escape(read)):
            minor_of_typed(text, currency)
    else:
        assert minor_of_typed(text, currency) == read


@given(st.integers(0, 10**9 - 1), st.sampled_from(["USD", "JPY", "BHD", "CLF"]))
def test_what_a_page_writes_is_read_again(minor: int, currency: str) -> None:
    for text in (format_money(minor, currency), plain_amount(minor, currency)):
        assert minor_of_typed(text, currency) == minor


@pytest.mark.proves("I6")
@pytest.mark.parametrize(
    "number",
    [10.005, 0.001, 5e-324, 1000.004, float("nan"), float("inf"), -float("inf"), 1e308, 10**400],
)
def test_a_number_that_is_no_amount(number: float) -> None:
    with pytest.raises(BadAmount):
        minor_of_number(number)


@pytest.mark.proves("I5")
@given(st.integers(0, 10**11 - 1))
def test_what_is_written_is_read_again(minor: int) -> None:
    assert minor_of_text(plain_amount(minor, "USD"), "USD") == minor


@given(st.integers(-MAX_MINOR // 100, MAX_MINOR // 100))
def test_what_a_model_is_told_comes_back_exactly(minor: int) -> None:
    assert minor_of_number(to_model_units({"amount_minor": minor})["amount_usd"]) == minor
