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
    is_full = models.BooleanField(default=False, db_default=False)  # all is to be read

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["by"], condition=Q(ended_at=None), name="verification_one_each"
            ),
        ]
        indexes = [models.Index(fields=["by", "-id"], name="verification_newest")]

    def __str__(self) -> str:
        return f"verification {self.pk}: {self.done} of {self.total}"


class VerifiedHead(models.Model):
    """Up to which head a workspace's record was found to hold. See agents.audit.verified."""

    workspace = models.OneToOneField("agents.Workspace", models.CASCADE, primary_key=True)
    head = models.PositiveBigIntegerField()
    seal = models.CharField(max_length=64)
    upto = models.PositiveBigIntegerField()
    full_at = models.DateTimeField()  # when all of it was last read
    proof = models.CharField(max_length=64)  # under the record's key

    def __str__(self) -> str:
        return f"workspace {self.workspace_id}: verified up to head {self.head}"
