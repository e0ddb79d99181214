"""A bar for each day, stacked by what became of something; the figures stand in a table below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from agents.core.money import format_money


@dataclass(frozen=True)
class Layer:
    """One colour of the stack, with its icon's name and its word."""

    role: str
    word: str


@dataclass(frozen=True)
class Segment:
    """A part of a bar: where it is drawn, in percent of the chart."""

    role: str
    told: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Day:
    """One bar, from its bottom to its top, and its figures as they are written."""

    date: date
    segments: Sequence[Segment]
    counts: Sequence[int]
    values: Sequence[str]


@dataclass(frozen=True)
class Chart:
    """Days in their order. `highest` is the whole height, "" where nothing was counted."""

    layers: Sequence[Layer]
    days: Sequence[Day]
    highest: str
    today: Sequence[tuple[Layer, str]]  # the last day's figures


def chart(
    layers: Sequence[Layer],
    dates: Sequence[date],
    counted: Iterable[tuple[date | None, str, int]],
    *,
    of_money: bool = False,
) -> Chart:
    """Draw what was counted by day and word, summed where it comes in parts.

    Money is in minor units; what is of another day or word is left out.
    """
    sums: Counter[tuple[date | None, str]] = Counter()
    for day, word, count in counted:
        sums[day, word] += count
    rows = [[sums[day, layer.word] for layer in layers] for day in dates]
    highest = max([sum(row) for row in rows] + [1])
    written = [[format_money(value) if of_money else f"{value:,}" for value in row] for row in rows]
    days = [
        Day(day, _segments(n, len(dates), row, highest, layers, texts), row, texts)
        for n, (day, row, texts) in enumerate(zip(dates, rows, written, strict=True))
    ]
    top = "" if not any(map(any, rows)) else format_money(highest) if of_money else f"{highest:,}"
    return Chart(layers, days, top, list(zip(layers, written[-1], strict=True)))


def _segments(
    n: int,
    of: int,
    row: Sequence[int],
    highest: int,
    layers: Sequence[Layer],
    texts: Sequence[str],
) -> list[Segment]:
    """Place one day's bar: percent of the chart's width and height, from its top left."""
    width, found, y = 100 / of, [], 100.0
    for layer, value, text in zip(layers, row, texts, strict=True):
        height = 100 * value / highest
        y -= height
        if value:
            place = (n * width + width * 0.15, y, width * 0.7, height)
            told = f"{text} {layer.word.lower()}"
            found.append(Segment(layer.role, told, *(round(part, 2) for part in place)))
    return found
