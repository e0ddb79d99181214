"""How people decided requests, summed once per past day for the Team page.

Not a policy's review of an action, which is a step (`models.step`).
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class ReviewDay(models.Model):
    """The requests closed on one day (UTC), by escalating rule or by the person who decided."""

    workspace = models.ForeignKey(
        "agents.Workspace", models.CASCADE, related_name="+", db_index=False
    )
    day = models.DateField()
    rule = models.CharField(
        max_length=100, blank=True
    )  # "" for a person, and for a day without requests
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", db_index=False
    )
    figures = models.JSONField()  # as core.review_figures adds them up

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "day", "rule"],
                condition=Q(user=None),
                name="review_day_of_rule_once",
            ),
            models.UniqueConstraint(
                fields=["workspace", "day", "user"],
                condition=Q(user__isnull=False),
                name="review_day_of_person_once",
            ),
        ]
        indexes = [
            # The page's range, and the last summed day.
            models.Index(fields=["workspace", "day"], name="review_day_range"),
            models.Index(fields=["day"], name="review_day_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.rule or self.user_id} on {self.day}"
