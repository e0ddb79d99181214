"""A snooze: a request is hidden from one person's views for a while."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from agents.models.escalation import Escalation


class Snooze(models.Model):
    """One person's snooze. It stops no clock and, once over, has no effect."""

    escalation = models.ForeignKey(Escalation, models.CASCADE, related_name="snoozes")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="snoozes", db_index=False
    )
    until = models.DateTimeField()  # before the request's deadline

    class Meta:
        constraints = [
            # Begins with the person, as the queue's views select by their snoozes.
            models.UniqueConstraint(fields=["user", "escalation"], name="snooze_once"),
        ]

    def __str__(self) -> str:
        return f"snooze of escalation {self.escalation_id} until {self.until:%Y-%m-%d %H:%M}"
