"""Accounts, their payees, transfers and invoices."""

from django.db import models
from django.db.models import F, Q

from opsconsole.desks import Money

CURRENCY = "EUR"  # of every account


class TransferState(models.TextChoices):  # of a transfer
    HELD, POSTED, RELEASED = "held", "posted", "released"


def euros(minor: int) -> Money:
    return Money(minor, CURRENCY)


class Row(models.Model):
    """A row with the desk's own key."""

    key = models.CharField(max_length=40)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.key


class Account(Row):
    """An account of the company. Books are separate from each other."""

    book = models.BigIntegerField()
    name = models.CharField(max_length=80)
    opening_minor = models.BigIntegerField()
    paid_minor = models.BigIntegerField(default=0)
    held_minor = models.BigIntegerField(default=0)  # for transfers that are under way

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["book", "key"], name="bank_account_once"),
            models.CheckConstraint(
                condition=Q(opening_minor__gte=F("paid_minor") + F("held_minor")),
                name="bank_account_not_overdrawn",
            ),
        ]

    @property
    def free_minor(self) -> int:
        return self.opening_minor - self.paid_minor - self.held_minor


class Payee(Row):
    """A person or company who may be paid, by our own id; bank details stay with the bank."""

    book = models.BigIntegerField()
    name = models.CharField(max_length=80)
    entered_on = models.DateField()
    is_blocked = models.BooleanField(default=False)
    entry = models.CharField(max_length=120, unique=True, null=True)  # noqa: DJ001 - of a call

    class Meta:
        constraints = [models.UniqueConstraint(fields=["book", "key"], name="bank_payee_once")]


class Transfer(Row):
    """One payment. Its key is the call's: one key pays once."""

    account = models.ForeignKey(Account, models.PROTECT, related_name="transfers")
    payee = models.ForeignKey(Payee, models.PROTECT, related_name="transfers")
    key = models.CharField(max_length=120, unique=True)
    amount_minor = models.BigIntegerField()
    on = models.DateField()  # the day that the bank books it
    purpose = models.CharField(max_length=140)
    state = models.CharField(max_length=10, default=TransferState.HELD)
    held_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="bank_transfer_positive"),
            models.CheckConstraint(
                condition=Q(state__in=TransferState.values), name="bank_transfer_state_known"
            ),
        ]


class Invoice(Row):
    """A bill as received. Its text is the sender's and unchecked."""

    account = models.ForeignKey(Account, models.PROTECT, related_name="invoices")
    received_on = models.DateField()
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "key"], name="bank_invoice_once")]
