"""The amounts of a policy in order, for a picture: what is small, and how far the next one is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10

from agents.core.limits import LimitField, Limits
from agents.core.money import format_money
from agents.core.requests import Json
from agents.core.tiers import Tiers, read_tiers
from agents.core.units import is_currency
from agents.sdk.argument_words import money_of
from agents.sdk.desk import DESKS
from agents.shell.formats import desk_title
from agents.web.policy.desk_sections import CAPS, desk_names
from agents.web.policy.limits import who_approves

LEAST = 10.0  # percent of the scale that the lowest amount takes


@dataclass(frozen=True)
class Rung:
    """One amount, and its place in percent of a logarithmic scale."""

    name: str
    amount: str
    place: float

    @property
    def rest(self) -> float:
        return round(100 - self.place, 2)


@dataclass(frozen=True)
class Ladder:
    """The amounts of a desk in one currency, lowest first."""

    title: str
    rungs: Sequence[Rung]
    above: str  # who approves the largest amounts, in words; "": there are no tiers


def ladders(limits: Limits) -> list[Ladder]:
    """Return a ladder for each desk and currency that has amounts."""
    tiers = read_tiers(limits.tiers or {})
    found = []
    for desk in desk_names(limits):
        amounts: dict[str, list[tuple[int, str]]] = {}
        for currency, minor, name in (*_limits(limits, desk), *_caps(limits, desk)):
            amounts.setdefault(currency, []).append((minor, name))
        for currency, bands in tiers.get(desk, {}).items():
            amounts.setdefault(currency, []).extend(
                (band.up_to_minor, f"Approved by {who_approves(band)}")
                for band in bands
                if band.up_to_minor
            )
        for currency, of in sorted(amounts.items()):
            title, above = f"{desk_title(desk)}, {currency}", _above(tiers, desk, currency)
            found.append(Ladder(title, _rungs(of, currency), above))
    return [one for one in found if one.rungs]


def _above(tiers: Mapping[str, Mapping[str, Tiers]], desk: str, currency: str) -> str:
    bands = tiers.get(desk, {}).get(currency)
    if not bands:
        return ""
    bound = bands[-2].up_to_minor if len(bands) > 1 else None
    what = f"Above {format_money(bound, currency)}" if bound else "Any amount"
    return f"{what}: approved by {who_approves(bands[-1])}."


def _limits(limits: Limits, desk: str) -> Iterator[tuple[str, int, str]]:
    """Yield the amounts among a desk's limits, in any pattern, as currency, units and name."""
    if desk in DESKS:
        patterns = ("", *limits.part_of(desk, "patterns"))
        held = [limits.of(pattern, desk).part_of(desk, "limits") for pattern in patterns]
        for one in DESKS[desk].limit_fields:
            if is_currency(one.unit):
                yield from _amounts(one, [part.get(one.name, one.default) for part in held])


def _amounts(one: LimitField, values: Iterable[Json]) -> Iterator[tuple[str, int, str]]:
    """Yield each amount once."""
    for minor in {money.minor if (money := money_of(value)) else value for value in values}:
        yield one.unit, minor, one.label


def _caps(limits: Limits, desk: str) -> Iterator[tuple[str, int, str]]:
    for currency, caps in limits.caps_of(desk).items():
        for key, minor in caps.items():
            yield currency, minor, CAPS.get(key, key)


def _rungs(amounts: Sequence[tuple[int, str]], currency: str) -> list[Rung]:
    """Place amounts above zero: each ten times larger one is equally far from the last."""
    of = sorted((one for one in amounts if one[0] > 0), key=lambda one: one[0])
    if not of:
        return []
    low, high = log10(of[0][0]), log10(of[-1][0])
    wide = (100 - LEAST) / (high - low) if high > low else 0

    def place(minor: int) -> float:
        return round(LEAST + (log10(minor) - low) * wide, 2) if wide else 50.0

    return [Rung(name, format_money(minor, currency), place(minor)) for minor, name in of]
