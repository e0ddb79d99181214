"""A refund: part of a charge that is held, paid back or released."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Q


class RefundState(StrEnum):
    HELD = "held"
    PAID = "paid"
    RELEASED = "released"


class Refund(models.Model):
    """One row per idempotency key."""

    charge = models.ForeignKey("desk.Charge", models.PROTECT, related_name="refunds")
    key = models.CharField(max_length=120, unique=True)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    reason = models.TextField(blank=True)
    state = models.CharField(max_length=10, default=RefundState.HELD)
    reference = models.CharField(max_length=60, unique=True)  # for the customer
    held_at = models.DateTimeField()
    paid_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="refund_above_nought"),
            # Paid or released, never both; no other state fits.
            models.CheckConstraint(
                condition=Q(state=RefundState.HELD, paid_at=None, released_at=None)
                | Q(state=RefundState.PAID, paid_at__isnull=False, released_at=None)
                | Q(state=RefundState.RELEASED, paid_at=None, released_at__isnull=False),
                name="refund_times_fit_state",
            ),
        ]

    def __str__(self) -> str:
        return self.reference
