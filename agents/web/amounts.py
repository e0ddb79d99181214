"""Amounts in the address of a filter: as people write them, in one currency or any."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import reduce
from math import ceil, floor
from operator import or_

from django.db.models import Q

from agents.core.money import MAX_MINOR, BadAmount, currencies_with, exponent, minor_of_text

_ENDS = {"amount_from": "0", "amount_to": str(MAX_MINOR)}
AMOUNTS = (*_ENDS, "currency")
_UNUSUAL = (0, 3, 4)  # numbers of minor digits; nearly every currency has two
_MOST_DIGITS = "CLF"  # the currency with the most minor digits: it can read any amount


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
    """Return an amount in minor units of _MOST_DIGITS, or None if it cannot be read."""
    try:
        return minor_of_text(text, _MOST_DIGITS)
    except BadAmount:
        return None


def read_currency(text: str) -> int | None:
    """Return a currency's number of minor digits; None if it is not a currency."""
    try:
        return exponent(text.upper())
    except BadAmount:
        return None
