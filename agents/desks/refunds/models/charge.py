"""A charge: a customer's payment, and how much of it was refunded."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q


class Charge(models.Model):
    """Refunded and held amounts together never exceed the charge."""

    customer = models.ForeignKey("desk.Customer", models.CASCADE, related_name="charges")
    plan = models.CharField(max_length=40)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    paid_at = models.DateTimeField()
    refunded_minor = models.BigIntegerField(default=0)
    held_minor = models.BigIntegerField(default=0)  # for refunds under way
    # The billing system's name for it, such as an invoice number; "" if none was imported.
    reference = models.CharField(max_length=60, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="charge_above_nought"),
            models.CheckConstraint(
                condition=Q(refunded_minor__gte=0, held_minor__gte=0),
                name="charge_refunds_from_nought",
            ),
            # The last guard of the cap, whatever the code does.
            models.CheckConstraint(
                condition=Q(amount_minor__gte=F("refunded_minor") + F("held_minor")),
                name="charge_refunds_within",
            ),
        ]
        indexes = [
            # The latest charge of a customer, which is the one that is refunded.
            models.Index(fields=["customer", "-paid_at", "-id"], name="charge_latest"),
        ]

    def __str__(self) -> str:
        return f"{self.plan} {self.amount_minor} {self.currency}"
