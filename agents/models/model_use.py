"""The use of models on past days, summed once, as steps are too many to sum again."""

from __future__ import annotations

from django.db import models


class ModelUse(models.Model):
    """The model calls of runs that ended on one day (UTC), by model; columns as in Step."""

    day = models.DateField()
    model = models.CharField(max_length=100, blank=True)  # that answered; "": none did
    calls = models.PositiveBigIntegerField()
    tokens_in = models.PositiveBigIntegerField()
    tokens_out = models.PositiveBigIntegerField()
    tokens_lost = models.PositiveBigIntegerField()
    cost_micro_usd = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["day", "model"], name="model_use_once")]

    def __str__(self) -> str:
        return f"{self.model} on {self.day}"
