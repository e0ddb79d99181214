"""Outcomes of runs, requests and calls on past days, counted once."""

from __future__ import annotations

from django.db import models


class CaseDay(models.Model):
    """The cases of a workspace with one outcome on one day (UTC) in one currency."""

    workspace = models.ForeignKey(
        "agents.Workspace", models.CASCADE, related_name="+", db_index=False
    )
    day = models.DateField()
    # run.STATE and stop.REASON, of all workspaces, stand under the first; request.STATE,
    # call.automatic and call.permitted under each; "" under the first, of every day
    outcome = models.CharField(max_length=220, blank=True)
    currency = models.CharField(max_length=3, blank=True)  # "" without an amount
    count = models.PositiveBigIntegerField()
    minor = models.BigIntegerField(default=0)  # moved by calls, withheld from requests

    class Meta:
        constraints = [
            # The overview's range of days, and the last counted day.
            models.UniqueConstraint(
                fields=["day", "workspace", "outcome", "currency"], name="case_day_once"
            ),
        ]
        indexes = [
            # The metrics: all days of an outcome.
            models.Index(fields=["outcome", "count"], name="case_day_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} on {self.day}"
