"""How people decided requests, as sums that can be added over days, rules and people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from math import floor, log2

from agents.core.requests import Json
from agents.core.states import EscalationState

STEPS = 8  # classes of durations per doubling, so that a median is off by at most 4.4 %
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Closed:
    """A request that was decided or expired."""

    state: str
    rule: str  # that asked for a person
    by: int | None
    asked_minor: int | None
    granted_minor: int | None
    currency: str
    opened_at: datetime
    closed_at: datetime

    @property
    def taken_off(self) -> int:
        """Return by how much an adjusted request was lowered, in minor units."""
        is_lowered = self.state == EscalationState.ADJUSTED and self.granted_minor is not None
        return (self.asked_minor or 0) - (self.granted_minor or 0) if is_lowered else 0


@dataclass
class ReviewFigures:
    """Sums of closed requests. All parts are counts or amounts, so that sums add up."""

    counts: Counter[str] = field(default_factory=Counter)  # by state
    taken_off: Counter[str] = field(default_factory=Counter)  # minor units, by currency
    lengths: Counter[int] = field(default_factory=Counter)  # of decisions, by class of time
    # By hour of the day (UTC), each day counted.
    arrived: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)  # by a person
    waiting: Counter[int] = field(default_factory=Counter)  # at some time in the hour

    def add(self, one: Closed) -> None:
        """Count a request."""
        self.counts[one.state] += 1
        if one.taken_off:
            self.taken_off[one.currency] += one.taken_off
        if one.by is not None:
            self.lengths[_class_of((one.closed_at - one.opened_at).total_seconds())] += 1
            self.answered[one.closed_at.astimezone(UTC).hour] += 1
        self.arrived[one.opened_at.astimezone(UTC).hour] += 1
        self.waiting.update(_hours(one.opened_at, one.closed_at))

    def merge(self, other: ReviewFigures) -> None:
        """Add the sums of others."""
        self.counts += other.counts
        self.taken_off += other.taken_off
        self.lengths += other.lengths
        self.merge_hours(other)

    def merge_hours(self, other: ReviewFigures) -> None:
        """Add only what others count by hour of the day."""
        self.arrived += other.arrived
        self.answered += other.answered
        self.waiting += other.waiting

    def as_json(self) -> Json:
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: {str(key): n for key, n in part.items()} for name, part in parts.items()}

    @property
    def decided(self) -> int:
        """Return how many requests people decided."""
        return self.lengths.total()

    def seconds(self, share: float) -> float | None:
        """Return the seconds within which this share of decisions was made; None without any."""
        rank, before = share * self.decided, 0
        for number, count in sorted(self.lengths.items()):
            before += count
            if before >= rank:
                return 0.5 if number == 0 else 2 ** ((number - 0.5) / STEPS)
        return None


def figures_from(stored: Json) -> ReviewFigures:
    """Read stored sums."""

    def whole(name: str) -> Counter[int]:
        # Days that were summed before hours were counted have none.
        return Counter({int(key): n for key, n in stored.get(name, {}).items()})

    hours = [whole(name) for name in ("arrived", "answered", "waiting")]
    return ReviewFigures(
        Counter(stored["counts"]), Counter(stored["taken_off"]), whole("lengths"), *hours
    )


def _class_of(seconds: float) -> int:
    return 0 if seconds < 1 else 1 + floor(log2(seconds) * STEPS)


def _hours(begin: datetime, end: datetime) -> Iterator[int]:
    """Yield the hour of the day of each hour that a period touches."""
    at, end = begin.astimezone(UTC), end.astimezone(UTC)
    while at < end:
        yield at.hour
        at = at.replace(minute=0, second=0, microsecond=0) + HOUR
