"""A picture of how far a measured value is from its limit."""

from __future__ import annotations

from dataclasses import dataclass

from agents.core.old_names import unit_of
from agents.core.requests import Json
from agents.core.units import is_currency, with_unit

ROOM = 1.25  # the scale ends this much beyond what was asked for


@dataclass(frozen=True)
class Ruler:
    """Marks on a scale of 0 to 100 percent."""

    observed: float
    limit: float
    yours: float | None  # the most that the reviewer may grant; None: nothing
    observed_label: str
    limit_label: str
    yours_label: str
    full: int  # where the scale ends, in the ruling's unit
    told: str  # the picture in words

    @property
    def rest(self) -> float:
        return round(100 - self.limit, 2)


def ruling_to_draw(review: Json, amount_minor: int | None) -> Json:
    """Return the ruling of a request that its ruler shows, or None.

    It is the one that decided. For money it is the tightest that measured the amount itself: a
    day's sum is not what was requested, nor is its cap what goes out automatically.
    """
    deciding = review["deciding"]
    unit = unit_of(deciding)
    if not is_currency(unit):
        return deciding
    of_amount = [
        one
        for one in review.get("rulings") or [deciding]
        if one.get("verdict") == "escalate"
        and (one.get("observed"), unit_of(one)) == (amount_minor, unit)
        and type(one.get("limit")) is int
    ]
    return min(of_amount, key=lambda one: one["limit"], default=None)


def ruler(deciding: Json, yours_minor: int | None) -> Ruler | None:
    """Return the ruler of a ruling with a measurement in a unit, or None."""
    if deciding is None:
        return None
    observed, limit, unit = deciding.get("observed"), deciding.get("limit"), unit_of(deciding)
    if not unit or type(observed) is not int or type(limit) is not int or limit < 1:
        return None
    full = round(max(observed, limit) * ROOM)

    def place(value: int) -> float:
        return round(100 * value / full, 2)

    top, asked, most = (with_unit(value, unit) for value in (full, observed, limit))
    told = f"Scale up to {top}. Asked for: {asked}. Limit: {most}."
    yours = place(yours_minor) if yours_minor and is_currency(unit) else None
    mine = with_unit(yours_minor, unit) if yours_minor and yours else ""
    return Ruler(place(observed), place(limit), yours, asked, most, mine, full, told)
