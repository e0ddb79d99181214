"""The size of the database, measured once a day."""

from __future__ import annotations

from django.db import models
from django.db.models import Value


class DatabaseSize(models.Model):
    """One day's measurement, used only for the overview's forecast."""

    day = models.DateField(primary_key=True)  # UTC
    bytes = models.PositiveBigIntegerField()  # of what is in use, with indexes
    run_bytes = models.PositiveBigIntegerField(null=True)  # for each run; null: too few to tell
    day_runs = models.PositiveBigIntegerField()  # launched per day lately
    # By workspace id, to estimate the length of a copy.
    entries = models.JSONField(db_default=Value({}, models.JSONField()), default=dict)
    full_at = models.DateTimeField(null=True)  # null: never, or nobody can tell

    def __str__(self) -> str:
        return f"{self.bytes} bytes on {self.day}"
