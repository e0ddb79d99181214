"""A chart with a bar for each day, stacked by outcome; a table below has the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from agents.core.money import format_money


@dataclass(frozen=True)
class Layer:
    """One colour of the stack, with its icon and its word."""

    role: str
    word: str


@dataclass(frozen=True)
class Segment:
    """A part of a bar: its place in percent of the chart."""

    role: str
    told: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Day:
    """One bar, from bottom to top, and its figures in words."""

    date: date
    segments: Sequence[Segment]
    counts: Sequence[int]
    values: Sequence[str]


@dataclass(frozen=True)
class Chart:
    """Days in order. `highest` is the full height, "" if nothing was counted.

    `currency` is that of an amount, "" for counts.
    """

    layers: Sequence[Layer]
    days: Sequence[Day]
    highest: str
    today: Sequence[tuple[Layer, str]]  # the last day's figures
    currency: str = ""


def chart(
    layers: Sequence[Layer],
    dates: Sequence[date],
    counted: Iterable[Sequence[Any]],
    *,
    currency: str = "",
) -> Chart:
    """Chart counts, given as day, word and number; those of one day and word are added up.

    With a currency the numbers are minor units. Other days and words are left out.
    """
    sums: Counter[tuple[date | None, str]] = Counter()
    for day, word, count in counted:
        sums[day, word] += count
    rows = [[sums[day, layer.word] for layer in layers] for day in dates]
    highest = max([sum(row) for row in rows] + [1])

    def in_words(value: int) -> str:
        return format_money(value, currency) if currency else f"{value:,}"

    written = [[in_words(value) for value in row] for row in rows]
    days = [
        Day(day, _segments(n, len(dates), row, highest, layers, texts), row, texts)
        for n, (day, row, texts) in enumerate(zip(dates, rows, written, strict=True))
    ]
    top = in_words(highest) if any(map(any, rows)) else ""
    return Chart(layers, days, top, list(zip(layers, written[-1], strict=True)), currency)


def _segments(
    n: int,
    of: int,
    row: Sequence[int],
    highest: int,
    layers: Sequence[Layer],
    texts: Sequence[str],
) -> list[Segment]:
    """Return one day's bar in percent of the chart's width and height, from its top left."""
    width, found, y = 100 / of, [], 100.0
    for layer, value, text in zip(layers, row, texts, strict=True):
        height = 100 * value / highest
        y -= height
        if value:
            place = (n * width + width * 0.15, y, width * 0.7, height)
            told = f"{text} {layer.word.lower()}"
            found.append(Segment(layer.role, told, *(round(part, 2) for part in place)))
    return found
