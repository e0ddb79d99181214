"""A run's time axis, with long gaps folded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_GAP = 10.0  # seconds; a longer one is folded
FOLDED = 0.12  # width of a folded gap, as a share of the active time
LEAST = 0.8  # percent; anything narrower could not be seen


@dataclass(frozen=True)
class Bar:
    """A place on the axis: percent from the left, and percent of the width."""

    x: float
    width: float


@dataclass(frozen=True)
class Axis:
    """A scale of 0 to 100 for times."""

    spans: Sequence[tuple[float, float]]  # (from, to) in seconds: busy, or a gap short enough
    fold: float  # seconds that a folded gap is drawn as
    length: float  # of the whole axis, in drawn seconds

    def bar(self, begin: float, end: float) -> Bar:
        """Return the place of [begin, end)."""
        x, until = self._place(begin), self._place(end)
        width = max(until - x, LEAST)
        return Bar(round(min(x, 100 - width), 2), round(width, 2))

    @property
    def quarters(self) -> list[tuple[int, str]]:
        """Return percent and time of four marks; none if a gap is folded."""
        if len(self.spans) != 1:
            return []
        return [(x, f"{self.length * x / 100:.1f} s") for x in (0, 25, 50, 75)]

    def _place(self, at: float) -> float:
        drawn = 0.0
        for number, (begin, end) in enumerate(self.spans):
            drawn += self.fold if number else 0.0
            if at <= begin:
                # Any time in the gap before this span is drawn at its middle.
                drawn -= self.fold / 2 if number and at < begin else 0.0
                break
            drawn += min(at, end) - begin
            if at <= end:
                break
        return 100 * drawn / self.length if self.length else 0.0


def axis(busy: Sequence[tuple[float, float]]) -> Axis:
    """Return the axis for busy spans (begin, end) in seconds, in any order."""
    spans: list[tuple[float, float]] = []
    for begin, end in sorted(busy):
        if spans and begin - spans[-1][1] <= LONGEST_GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((begin, end))
    active = sum(end - begin for begin, end in spans)
    fold = max(active * FOLDED, 0.05)
    return Axis(spans, fold, active + fold * max(len(spans) - 1, 0))
