"""The first approval of a request that takes two people."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.core.money import format_money


class Approval(models.Model):
    """A person's approval while the request waits for a second person.

    It is never changed or removed: `Escalation.approval` names the valid one.
    """

    run = models.ForeignKey("agents.Run", models.CASCADE, related_name="+", db_index=False)
    escalation = models.ForeignKey("agents.Escalation", models.CASCADE, related_name="approvals")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False
    )
    account = models.CharField(max_length=150, blank=True)  # that ran the command for them
    at = models.DateTimeField()
    # The terms, which a second person has to approve as well.
    action_sha256 = models.CharField(max_length=64)  # of the requested action
    patch = models.JSONField(null=True)  # the arguments they set
    resource = models.CharField(max_length=200, blank=True)
    granted_minor = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True)
    comment = models.TextField(blank=True)
    is_simulated = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(granted_minor__isnull=True) | Q(granted_minor__gt=0),
                name="approval_grants_something",
            ),
        ]
        indexes = [
            # A person's approvals, which count towards their own limits.
            models.Index(fields=["by", "at"], name="approval_of_person"),
        ]

    def __str__(self) -> str:
        return f"approval {self.pk} of escalation {self.escalation_id}"

    @property
    def granted(self) -> str:
        """Return the amount in words; "" for none."""
        return "" if self.granted_minor is None else format_money(self.granted_minor, self.currency)
