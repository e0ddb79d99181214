"""The active time of a run: recorded before, and measured in this drive."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agents.core.limits import active
from agents.models import Step


@dataclass
class Timer:
    """A running measurement."""

    counts: bool = True  # towards the run's time


class ActiveTime:
    """Time of parallel calls counts once; assumed time is added."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._past = active(step.span for step in steps)
        self._spans: list[tuple[float, float]] = []
        self._since: dict[str, float] = {}  # start of each open call, by its step's key
        self._assumed = 0.0

    @contextmanager
    def measure(self, step: Step) -> Iterator[Timer]:
        """Count the block's duration as active time of a step, unless it clears `counts`."""
        started, timer = time.monotonic(), Timer()
        self._since[step.key] = started
        try:
            yield timer
        finally:
            del self._since[step.key]
            if timer.counts:
                ended = time.monotonic()
                step.seconds += ended - started
                self._spans.append((started, ended))
            if not self._since:  # later calls overlap none of these
                self._past, self._spans = self._past + active(self._spans), []

    def assume(self, step: Step, seconds: float) -> None:
        """Count time as used by a step although nobody waited for it."""
        step.seconds += seconds
        self._assumed += seconds

    def seconds(self) -> float:
        """Return the active time so far in seconds, open calls included."""
        now = time.monotonic()
        under_way = [(since, now) for since in list(self._since.values())]
        return self._past + active([*self._spans, *under_way]) + self._assumed
