"""Amounts as a filter's address holds them: in words of people, of one currency or of any."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import reduce
from math import ceil, floor
from operator import or_

from django.db.models import Q

from agents.core.money import (
    MAX_MINOR,
    BadAmount,
    currencies_with,
    exponent,
    minor_of_text,
)

_ENDS = {"amount_from": "0", "amount_to": str(MAX_MINOR)}
AMOUNTS = (*_ENDS, "currency")
_UNUSUAL = (0, 3, 4)  # digits of an amount that are minor; nearly every currency has two
_MOST_DIGITS = "CLF"  # the currency of which most digits are minor: any amount is read by it


def of_amount(given: Mapping[str, str]) -> Q:
    """Return the filter by amount: in one currency, or the same amount in any."""

    def within(digits: int) -> Q:
        least, most = (Decimal(given.get(name, end)) for name, end in _ENDS.items())
        bounds = (ceil(least.scaleb(digits)), min(floor(most.scaleb(digits)), MAX_MINOR))
        return Q(amount_minor__range=bounds)

    if known := given.get("currency", "").upper():
        return Q(currency=known) & within(exponent(known))
    unusual = [(Q(currency__in=currencies_with(digits)), within(digits)) for digits in _UNUSUAL]
    usual = ~reduce(or_, (those for those, _ in unusual)) & within(2)
    return reduce(or_, (those & amounts for those, amounts in unusual), usual)


def read_amount(text: str) -> int | None:
    """Return an amount's minor units at the most digits, or None if it cannot be read."""
    try:
        return minor_of_text(text, _MOST_DIGITS)
    except BadAmount:
        return None


def read_currency(text: str) -> int | None:
    """Return how many digits of a currency are minor, else None."""
    try:
        return exponent(text.upper())
    except BadAmount:
        return None
