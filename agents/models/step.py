"""A step: one request of a run's pattern, and the reply to it."""

from __future__ import annotations

from django.db import models
from django.db.models import BooleanField, Func, Q


class IsAsk(Func):
    """True for a request to a model, in the exact words of its index."""

    template = "%(expressions)s = 'ask'"
    output_field = BooleanField()


class Step(models.Model):
    """Steps are the state of a run: a replay over them leads to the same place."""

    # No index of its own where a constraint has one that begins with it.
    run = models.ForeignKey("agents.Run", models.CASCADE, related_name="steps", db_index=False)
    position = models.PositiveIntegerField()  # order in which steps were begun, from 1
    key = models.CharField(max_length=200)  # 2/execute, dispatch/sales/work#2
    kind = models.CharField(max_length=10)  # ask, review, escalate, use
    fingerprint = models.CharField(max_length=64)  # of the request; a replay must equal it
    asked = models.JSONField()
    reply = models.JSONField(null=True)
    failed = models.CharField(max_length=200, blank=True)
    attempts = models.PositiveSmallIntegerField(default=1)
    seconds = models.FloatField(default=0)  # of active time, over all attempts
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    tokens_lost = models.PositiveIntegerField(default=0)  # reserved for calls without an answer
    cost_micro_usd = models.PositiveBigIntegerField(null=True)  # None: no call, or price unknown
    model = models.CharField(max_length=100, blank=True)
    begun_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="step_key_once"),
            models.UniqueConstraint(fields=["run", "position"], name="step_position_once"),
        ]
        indexes = [
            # The use of models by runs that have not ended or ended today.
            models.Index(
                fields=[
                    *("run", "model", "attempts", "tokens_in", "tokens_out", "tokens_lost"),
                    *("cost_micro_usd", "kind"),
                ],
                condition=Q(kind="ask"),
                name="step_use",
            ),
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def span(self) -> tuple[float, float]:
        """Return the start and end of its busy time in seconds, as if uninterrupted."""
        begun = self.begun_at.timestamp()
        return begun, begun + self.seconds
