"""Money is integer minor units and a currency; numbers with a point exist only at the edge.

Inside, keys end in ``_minor``. What a model says and what the reference prints ends in
``_usd``; `to_model_units` and `minor_of_number` are the two doors between them.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache

from iso4217 import Currency

from agents.core.requests import Json

CURRENCY = "USD"
MAX_MINOR = 2**53 - 1  # beyond it a float, and so JSON elsewhere, loses cents
_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.([0-9]{1,2}))?", re.ASCII)


class BadAmount(ValueError):
    """The text or number is no amount of money. The message says what would be."""


def minor_of_text(text: str) -> int:
    """Read "800", "800.5" or "800.00" as minor units. Raises BadAmount for anything else.

    The one parser for forms, API, command line and policy files: ASCII digits, a point, no
    sign, no separator, no exponent, no blanks.
    """
    match = _AMOUNT.fullmatch(text)
    if not match:
        raise BadAmount(f"{text!r} is not an amount; write digits and a point, such as 800.00")
    whole, cents = match.groups()
    return int(whole) * 100 + int((cents or "").ljust(2, "0"))


def minor_of_number(number: int | float | Decimal) -> int:
    """Return the minor units of a JSON number, exact: 1e3 is 100000. Raises BadAmount.

    A JSON float is read as the digits that were written, so 10.1 is 1010 and 10.005 is refused.
    """
    value = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if not value.is_finite() or abs(value) > Decimal(MAX_MINOR) / 100:
        raise BadAmount(f"{number} is not an amount of money")
    minor = value * 100
    if minor != minor.to_integral_value():
        raise BadAmount(f"{number} is not a whole number of cents")
    return int(minor)


@cache
def exponent(currency: str) -> int:
    """Return how many digits of an amount are minor: 2 of EUR, 0 of JPY, 3 of BHD (ISO 4217).

    Raises BadAmount for what is no currency, or has no minor unit, as gold has none.
    """
    known = currency.isupper() and currency in Currency.__members__  # it has EUR and eur
    digits = Currency(currency).exponent if known else None
    if digits is None:
        raise BadAmount(f"{currency!r} is no currency that amounts are paid in")
    return int(digits)


def format_money(minor: int, currency: str = CURRENCY) -> str:
    """Return an amount for people: USD 1,200.00, JPY 1,200, and −USD 0.50 below nought."""
    sign = "−" if minor < 0 else ""
    try:
        digits = exponent(currency)
    except BadAmount:  # stored long ago: it is shown all the same
        digits = 2
    return f"{sign}{currency} {Decimal(abs(minor)).scaleb(-digits):,.{digits}f}"


def plain_amount(minor: int) -> str:
    """Return an amount as a form field holds it: 1200.00."""
    return f"{minor // 100}.{minor % 100:02d}"


def to_model_units(value: Json) -> Json:
    """Return `value` as models and the reference's results see it: 120000 minor as 1200.0 usd."""
    if isinstance(value, dict):
        said = {}
        for key, item in value.items():
            if key.endswith("_minor") and isinstance(item, int):
                said[key.removesuffix("_minor") + "_usd"] = item / 100
            else:
                said[key] = to_model_units(item)
        return said
    if isinstance(value, list):
        return [to_model_units(item) for item in value]
    return value
