"""How far an amount is from its limit, as a picture."""

from __future__ import annotations

from dataclasses import dataclass

from agents.core.money import format_money
from agents.core.requests import Json

ROOM = 1.25  # the scale ends this much beyond what was asked for


@dataclass(frozen=True)
class Ruler:
    """Places on a scale of 0 to 100 percent."""

    observed: float
    limit: float
    yours: float | None  # what the reviewer may grant at most; None: nothing
    limit_minor: int
    full_minor: int  # where the scale ends
    told: str  # the picture in words

    @property
    def rest(self) -> float:
        return round(100 - self.limit, 2)


def ruler(deciding: Json, yours_minor: int | None) -> Ruler | None:
    """Return the ruler of a ruling about an amount, else None."""
    observed, limit = deciding.get("observed"), deciding.get("limit")
    is_amount = str(deciding.get("rule", "")).endswith(("limit", "left", "total"))
    if not is_amount or not isinstance(observed, int) or not isinstance(limit, int) or limit < 1:
        return None
    full = round(max(observed, limit) * ROOM)

    def place(minor: int) -> float:
        return round(100 * minor / full, 2)

    scale = f"Scale up to {format_money(full)}."
    told = f"{scale} Asked for: {format_money(observed)}. Limit: {format_money(limit)}."
    yours = place(yours_minor) if yours_minor else None
    return Ruler(place(observed), place(limit), yours, limit, full, told)
