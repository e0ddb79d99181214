"""A mail to a customer. Its row exists before it is sent."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Q

LONGEST_FAULT = 300  # characters


class MailState(StrEnum):
    SENDING = "sending"  # after a crash it is unknown whether it was sent
    SENT = "sent"


class SentMail(models.Model):
    """One row per idempotency key."""

    book = models.ForeignKey("agents.Book", models.PROTECT, related_name="mails")
    customer = models.ForeignKey("desk.Customer", models.PROTECT, related_name="mails")
    key = models.CharField(max_length=120, unique=True)
    to = models.EmailField()
    template = models.CharField(max_length=60)
    subject = models.CharField(max_length=120)
    body = models.TextField()
    amount_minor = models.BigIntegerField(null=True)  # None: it is not about money
    currency = models.CharField(max_length=3, blank=True)
    state = models.CharField(max_length=10, default=MailState.SENDING)
    reference = models.CharField(max_length=60, unique=True)
    started_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    # The error of server or connection that interrupted sending; "" if unknown.
    fault = models.CharField(max_length=LONGEST_FAULT, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="mail_above_nought"),
            # It also lists the states: no other fits.
            models.CheckConstraint(
                condition=Q(state=MailState.SENDING, sent_at=None)
                | Q(state=MailState.SENT, sent_at__isnull=False),
                name="mail_time_fits_state",
            ),
        ]

    def __str__(self) -> str:
        return self.reference
