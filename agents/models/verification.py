"""A verification of the record on request: a worker runs it, the page shows its progress."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class Verification(models.Model):
    """A job for a worker. Its result becomes an event too, unless it was cancelled."""

    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False
    )
    workspaces = models.JSONField()  # their ids
    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True)  # last sign of life of its worker; null: not started
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
    """The head up to which a workspace's record was valid; see agents.audit.verified."""

    workspace = models.OneToOneField("agents.Workspace", models.CASCADE, primary_key=True)
    head = models.PositiveBigIntegerField()
    seal = models.CharField(max_length=64)
    upto = models.PositiveBigIntegerField()
    full_at = models.DateTimeField()  # when all of it was last read
    proof = models.CharField(max_length=64)  # made with the audit key

    def __str__(self) -> str:
        return f"workspace {self.workspace_id}: verified up to head {self.head}"
