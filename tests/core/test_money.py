"""Amounts: one strict parser for text, one exact conversion for numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.money import (
    MAX_MINOR,
    BadAmount,
    format_money,
    minor_of_number,
    minor_of_text,
    plain_amount,
    to_model_units,
)


@pytest.mark.parametrize("text", ["1000000000", "5.", "½", "5\x00", "USD 5", ""])
def test_text_that_is_no_amount(text: str) -> None:
    with pytest.raises(BadAmount, match="up to 9 digits"):
        minor_of_text(text, "USD")


@pytest.mark.parametrize(
    ("number", "minor"),
    [(1000, 100000), (1e3, 100000), (10.1, 1010), (0.1, 10), (-5, -500), (0, 0), (1199.99, 119999)],
)
def test_a_number_of_whole_cents(number: float, minor: int) -> None:
    assert minor_of_number(number) == minor


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


def test_people_are_told_currency_and_cents() -> None:
    assert [format_money(120000, "USD"), format_money(1, "USD"), format_money(-50, "USD")] == [
        "USD 1,200.00",
        "USD 0.01",
        "−USD 0.50",
    ]


def test_only_minor_units_are_told_anew() -> None:
    inside = {"a": [{"amount_minor": 5, "x": 1}], "note_minor": "text", "b": {"c_minor": 120000}}

    assert to_model_units(inside) == {
        "a": [{"amount_usd": 0.05, "x": 1}],
        "note_minor": "text",
        "b": {"c_usd": 1200.0},
    }
