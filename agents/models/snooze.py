"""A snooze: a request is out of one person's views for a while; everybody else still sees it."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from agents.models.escalation import Escalation


class Snooze(models.Model):
    """One person's snooze. It stops no clock and changes no claim; once over, it has no effect."""

    escalation = models.ForeignKey(Escalation, models.CASCADE, related_name="snoozes")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="snoozes", db_index=False
    )
    until = models.DateTimeField()  # before the request's deadline

    class Meta:
        constraints = [
            # It begins with the person: a queue's views ask what they have snoozed.
            models.UniqueConstraint(fields=["user", "escalation"], name="snooze_once"),
        ]

    def __str__(self) -> str:
        return f"snooze of escalation {self.escalation_id} until {self.until:%Y-%m-%d %H:%M}"
