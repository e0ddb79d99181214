"""The day of daily sums: it begins at midnight UTC, wherever people are."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_midnight(at: datetime) -> datetime:
    """Return when the day of `at` began."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
