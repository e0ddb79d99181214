"""Money, units of other measured values, and days.

Money is integer minor units and a currency; decimal numbers exist only at the edge.

Internal keys end in ``_minor``, those of models and of the reference in ``_usd``; `to_model_units`
and `minor_of_number` convert between them.
"""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache

from iso4217 import Currency

from agents.core.requests import Json

PRICED_IN = "USD"  # the currency of models' prices
MAX_MINOR = 2**53 - 1  # beyond it a float, and so other programs' JSON, loses cents
_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.([0-9]{1,4}))?", re.ASCII)
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_NAMED = re.compile(r"([A-Za-z]{3}|[$€£¥])?\s*([0-9].*?)\s*([A-Za-z]{3}|[$€£¥])?")
_GROUPERS = r" \u00a0\u2009\u202f'’"


class BadAmount(ValueError):
    """The text or number is not an amount of money. The message says what would be."""


def minor_of_text(text: str, currency: str) -> int:
    """Read "800", "800.5" or "800.00" as minor units. Raises BadAmount for anything else.

    The parser for commands, the API and imported tables: ASCII digits, a point, no sign, no
    separator, no exponent. Surrounding blanks, as from a pasted cell, are ignored.
    """
    match, digits = _AMOUNT.fullmatch(text.strip()), exponent(currency)
    whole, part = match.groups() if match else ("", None)
    if not match or len(part or "") > digits:
        such = plain_amount(800 * 10**digits, currency)
        point = f", a point and up to {digits} more" if digits else ""
        raise BadAmount(f"{text!r} is not an amount like {such}: write up to 9 digits{point}")
    return int(whole + (part or "").ljust(digits, "0"))


def minor_of_typed(text: str, currency: str) -> int:
    """Read an amount as people write it: USD 1,000.50, $800, 1 000,50. Raises BadAmount.

    What the strict parser or a page writes is read as that. A text with two readings is refused,
    and the message has both: in USD 1.000, in BHD 1,000.
    """
    named, number = split_currency(text)
    if named not in ("", currency):
        raise BadAmount(f"“{text}” is not in {currency}: write the amount in {currency}")
    try:
        return minor_of_text(number, currency)
    except BadAmount as error:
        strict = error
    digits = exponent(currency)
    readings = [_read_grouped(number, ",", "."), _read_grouped(number, ".", ",")]
    if readings[1] is not None and digits < -int(readings[1].as_tuple().exponent):
        readings[1] = None  # a page writes 1,000 for a thousand, unless three digits are usual
    found = sorted({one for one in readings if one is not None})
    if len(found) == 2 and all(_has_digits(one, digits) for one in found):
        small, large = (format_money(int(one.scaleb(digits)), currency) for one in found)
        raise BadAmount(f"“{text}” is {large} or {small}: write one of the two")
    if len(found) == 2:
        large = format_money(int(found[1].scaleb(digits)), currency)
        raise BadAmount(f"“{text}” is {large} or {found[0]}: write {currency} and all digits")
    if not found or not _has_digits(found[0], digits):
        raise strict
    return int(found[0].scaleb(digits))


def split_currency(text: str) -> tuple[str, str]:
    """Return the currency that a typed amount names, or "", and its number."""
    match = _NAMED.fullmatch(text.strip())
    before, number, after = match.groups() if match else (None, text, None)
    if before and after:
        return "", text
    named = before or after or ""
    return _SYMBOLS.get(named, named.upper()), number


def _read_grouped(number: str, group: str, point: str) -> Decimal | None:
    """Return a number whose thousands may be grouped by `group` or a blank; None if it is none."""
    separator = f"[{re.escape(group)}{_GROUPERS}]"
    groups = rf"[1-9][0-9]{{0,2}}(?P<sign>{separator})[0-9]{{3}}(?:(?P=sign)[0-9]{{3}})?"
    whole = rf"{groups}|0|[1-9][0-9]{{0,8}}"
    match = re.fullmatch(rf"(?P<whole>{whole})(?:{re.escape(point)}(?P<part>[0-9]+))?", number)
    if not match:
        return None
    return Decimal(f"{re.sub(separator, '', match['whole'])}.{match['part'] or ''}")


def _has_digits(amount: Decimal, digits: int) -> bool:
    return amount == amount.quantize(Decimal(1).scaleb(-digits))


def minor_of_number(number: int | float | Decimal) -> int:
    """Return the minor units of a JSON number, exact: 1e3 is 100000. Raises BadAmount.

    A JSON float is read by its decimal digits, so 10.1 is 1010 and 10.005 is refused.
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
    """Return a currency's number of minor digits (ISO 4217): 2 for EUR, 0 for JPY, 3 for BHD.

    Raises BadAmount for an unknown currency, or one without a minor unit, such as gold.
    """
    known = currency.isupper() and currency in Currency.__members__  # which has EUR and eur
    digits = Currency(currency).exponent if known else None
    if digits is None:
        raise BadAmount(f"{currency!r} is not a currency in which amounts are paid")
    return int(digits)


@cache
def currencies_with(digits: int) -> tuple[str, ...]:
    """Return the currencies with this many minor digits: JPY and others for 0."""
    known = ((str(one.code), one.exponent) for one in Currency)
    return tuple(sorted(code for code, of_it in known if of_it == digits))


def format_money(minor: int, currency: str) -> str:
    """Return an amount for people: EUR 1,200.00, JPY 1,200, −EUR 0.50."""
    sign = "−" if minor < 0 else ""
    try:
        digits = exponent(currency)
    except BadAmount:  # stored long ago, and still shown
        digits = 2
    whole, part = divmod(abs(minor), 10**digits)
    return f"{sign}{currency} {whole:,}" + (f".{part:0{digits}}" if digits else "")


def format_sums(amounts: Iterable[tuple[str, int]]) -> str:
    """Return the sum of each currency of (currency, minor units) pairs: EUR 5.00, JPY 800.

    "" if there is no amount.
    """
    sums: dict[str, int] = {}
    for currency, minor in amounts:
        sums[currency] = sums.get(currency, 0) + minor
    return ", ".join(format_money(sums[currency], currency) for currency in sorted(sums))


def format_largest(amounts: Iterable[tuple[str, int]]) -> str:
    """Return the largest amount of each currency, as `format_sums` does their sums."""
    return format_sums(dict(sorted(amounts)).items())  # the last of a currency stays


def plain_amount(minor: int, currency: str) -> str:
    """Return an amount for a form field: 1200.00, for JPY 1200."""
    digits = exponent(currency)
    return f"{Decimal(minor).scaleb(-digits):.{digits}f}"


def to_model_units(value: Json) -> Json:
    """Return `value` in the units of models and the reference: 120000 minor as 1200.0."""
    if isinstance(value, dict):
        converted = {}
        for key, item in value.items():
            if key.endswith("_minor") and isinstance(item, int):
                converted[key.removesuffix("_minor") + "_usd"] = item / 100
            else:
                converted[key] = to_model_units(item)
        return converted
    if isinstance(value, list):
        return [to_model_units(item) for item in value]
    return value


# The units of measured values, and their display.


def is_currency(unit: str) -> bool:
    """Tell whether a unit is a currency, whose values are minor units."""
    try:
        return exponent(unit) >= 0
    except BadAmount:
        return False


def with_unit(value: Json, unit: str) -> str:
    """Return a value with its unit, if any: EUR 5,000.00, 35 days, 1 call."""
    if not isinstance(value, int) or isinstance(value, bool):
        return str(value)
    if is_currency(unit):
        return format_money(value, unit)
    return f"{value:,} {unit.removesuffix('s') if value == 1 else unit}" if unit else str(value)


# The day of daily sums: it begins at midnight UTC, wherever people are.


def utc_midnight(at: datetime) -> datetime:
    """Return when the day of `at` began."""
    return day_begun_at(at.astimezone(UTC).date())


def day_begun_at(day: date) -> datetime:
    """Return when a day begins."""
    return datetime.combine(day, time(), UTC)
