"""A check of the record that a person asked for: a worker does it, the page shows how far it is."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class Verification(models.Model):
    """A row that a worker serves. What came of it is an event too, unless it was cancelled."""

    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False
    )
    workspaces = models.JSONField()  # their ids
    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True)  # its worker gave a sign of life; null: nobody's
    tries = models.PositiveSmallIntegerField(default=0)
    done = models.PositiveBigIntegerField(default=0)  # chains
    total = models.PositiveBigIntegerField(default=0)
    cancelled_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.JSONField(null=True)  # {"chains", "faults", "more", "notes"} or {"failed"}

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["by"], condition=Q(ended_at=None), name="verification_one_each"
            ),
        ]
        indexes = [models.Index(fields=["by", "-id"], name="verification_newest")]

    def __str__(self) -> str:
        return f"verification {self.pk}: {self.done} of {self.total}"
