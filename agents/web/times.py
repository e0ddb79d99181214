"""Read a time that an address holds."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime


def read_time(text: str) -> datetime | None:
    """Return the time in UTC; a date is its first moment. None: no time, or beyond the calendar."""
    try:
        found = parse_datetime(text)
        if found is None and (day := parse_date(text)) is not None:
            found = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - made aware below
        if found is None:
            return None
        aware = found if timezone.is_aware(found) else timezone.make_aware(found, UTC)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
