"""The units of measured values, and their display."""

from __future__ import annotations

from agents.core.money import BadAmount, exponent, format_money
from agents.core.requests import Json


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
