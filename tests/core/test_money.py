"""Amounts: a strict parser for text, one for people, one exact conversion for numbers."""

import json
import re
from pathlib import Path

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


TYPED: dict[str, list[tuple[str, int | str]]] = json.loads(
    Path(__file__).with_name("typed.json").read_text("utf-8")
)


@pytest.mark.parametrize(
    ("currency", "text", "read"),
    [(currency, *row) for currency, rows in TYPED.items() for row in rows],
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
