"""The day of daily sums: it begins at midnight UTC, wherever people are."""

from __future__ import annotations

from datetime import UTC, date, datetime, time


def utc_midnight(at: datetime) -> datetime:
    """Return when the day of `at` began."""
    return day_begun_at(at.astimezone(UTC).date())


def day_begun_at(day: date) -> datetime:
    """Return when a day begins."""
    return datetime.combine(day, time(), UTC)
