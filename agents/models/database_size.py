"""How large the database is, looked at once a day."""

from __future__ import annotations

from django.db import models
from django.db.models import Value


class DatabaseSize(models.Model):
    """What one day's look came to. Nothing rests on it but the overview's forecast."""

    day = models.DateField(primary_key=True)  # UTC
    bytes = models.PositiveBigIntegerField()  # of what is in use, with indexes
    run_bytes = models.PositiveBigIntegerField(null=True)  # for each run; null: too few to tell
    day_runs = models.PositiveBigIntegerField()  # launched in a day, lately
    # In the log of each workspace, by its id: how long a copy will be.
    entries = models.JSONField(db_default=Value({}, models.JSONField()), default=dict)
    full_at = models.DateTimeField(null=True)  # null: never, or nobody can tell

    def __str__(self) -> str:
        return f"{self.bytes} bytes on {self.day}"
