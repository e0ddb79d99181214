"""Log once a day how large the database is, what a run takes, and when it will be full."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models import Count, Min

from agents.models import DatabaseSize, Event, Run

LATELY = timedelta(days=30)  # over which launches a day are averaged
FEWEST = 200  # runs needed to estimate the size of one: empty tables have a size too
HORIZON = timedelta(days=3650)  # of the forecast
GIGABYTE = 1_000_000_000


def measure_database(*, at: datetime) -> bool:
    """Measure the database if that was not done today. Return whether this call did.

    Counts all events and runs, and the runs of a month.
    """
    if DatabaseSize.objects.filter(day=at.date()).exists():
        return False
    size, limit = _sizes()
    here, archived = _count_runs()
    lately = Run.objects.filter(created_at__gt=at - LATELY)
    first = lately.aggregate(first=Min("created_at"))["first"] or at
    day_runs = round(lately.count() / max(1.0, (at - first) / timedelta(days=1)))
    run_bytes = size // here if here >= FEWEST else None
    if archived > here // 10:  # their rows and space remain and would inflate the size of the rest
        known = DatabaseSize.objects.order_by("-day").values_list("run_bytes", flat=True)
        run_bytes = known.first()
    found = DatabaseSize(day=at.date(), bytes=size, run_bytes=run_bytes, day_runs=day_runs)
    counts = Event.objects.order_by().values_list("workspace").annotate(Count("pk"))
    found.entries = {str(workspace): count for workspace, count in counts}
    left = days_left(size=size, limit=limit, growth=(run_bytes or 0) * day_runs)
    found.full_at = None if left is None else at + timedelta(days=left)
    DatabaseSize.objects.bulk_create([found], ignore_conflicts=True)
    DatabaseSize.objects.filter(day__lt=at.date() - LATELY).delete()
    return True


def _count_runs() -> tuple[int, int]:
    """Return the number of runs with events here, and of archived runs."""
    counts = Run.objects.aggregate(all=Count("pk"), archived=Count("archived_at"))
    return counts["all"] - counts["archived"], counts["archived"]


def days_left(*, size: int, limit: int | None, growth: int) -> float | None:
    """Return in how many days `limit` bytes are reached; None: beyond HORIZON or unknown."""
    if limit is None or not growth:
        return None
    days = max(0, limit - size) / growth
    return days if days < HORIZON.days else None


def _sizes() -> tuple[int, int | None]:
    """Return the bytes in use and the bytes available in all; None: not configured."""
    limit = settings.OPSCONSOLE_DATABASE_GIGABYTES * GIGABYTE or None
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_database_size(current_database())")
            return int(cursor.fetchone()[0]), limit
        found = []
        for name in ("page_size", "page_count", "freelist_count"):
            cursor.execute(f"PRAGMA {name}")
            found.append(int(cursor.fetchone()[0]))
    page, count, free = found
    if limit is None and (file := Path(connection.settings_dict["NAME"])).is_file():
        disk = os.statvfs(file)
        limit = page * count + disk.f_bavail * disk.f_frsize
    return page * (count - free), limit
