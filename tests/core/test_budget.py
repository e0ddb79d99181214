"""What counts as active time."""

from __future__ import annotations

import pytest

from agents.core.budget import active


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], 0),
        ([(0, 2), (5, 6)], 3),  # one after the other
        ([(0, 2), (0, 2), (1, 3)], 3),  # side by side counts once
        ([(1, 9), (2, 3)], 8),
        ([(5, 6), (0, 2)], 3),  # in whatever order
    ],
)
def test_time_counts_once_however_many_are_busy(
    spans: list[tuple[float, float]], seconds: float
) -> None:
    assert active(spans) == seconds
