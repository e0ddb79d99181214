"""What a measured value is counted in, and how people read it."""

from __future__ import annotations

from agents.core.former import CURRENCY, DAYS, OF_MONEY
from agents.core.money import BadAmount, exponent, format_money
from agents.core.requests import Json


def is_currency(unit: str) -> bool:
    """Tell whether values in a unit are minor units of a currency, as its code says."""
    try:
        return exponent(unit) >= 0
    except BadAmount:
        return False


def with_unit(value: Json, unit: str) -> str:
    """Return a value with its unit: EUR 5,000.00, 35 days, 1 call. What is not a count has none."""
    if not isinstance(value, int) or isinstance(value, bool):
        return str(value)
    if is_currency(unit):
        return format_money(value, unit)
    return f"{value:,} {unit.removesuffix('s') if value == 1 else unit}" if unit else str(value)


def unit_of(ruling: Json) -> str:
    """Return the unit that a stored ruling names.

    Rulings stored before they named one were of the first desk: there the rule's name tells.
    """
    if "unit" in ruling:
        return str(ruling["unit"])
    rule = str(ruling.get("rule", ""))
    if rule == DAYS:
        return "days"
    return CURRENCY if rule.startswith(OF_MONEY) else ""
