"""The tables of the business: customers, charges, refunds, mails, and days in numbers."""

from enum import StrEnum

from django.db import models
from django.db.models import F, Q

from agents.models.keys import check, index, once


class Customer(models.Model):
    """A customer, identified by a number within a book."""

    book = models.ForeignKey("agents.Book", models.CASCADE, related_name="customers")
    number = models.BigIntegerField()
    name = models.CharField(max_length=80)
    email = models.EmailField()
    country = models.CharField(max_length=2)
    tier = models.CharField(max_length=20)

    class Meta:
        constraints = [once("customer_number_once", "book", "number")]

    def __str__(self) -> str:
        return f"{self.name} ({self.number})"


class Subscription(models.Model):
    """A plan that a customer pays for by the month."""

    customer = models.ForeignKey(Customer, models.CASCADE, related_name="subscriptions")
    plan = models.CharField(max_length=40)
    price_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    first_paid_at = models.DateTimeField()

    class Meta:
        constraints = [check("subscription_price_from_nought", Q(price_minor__gte=0))]


class Charge(models.Model):
    """Refunded and held amounts together never exceed the charge."""

    customer = models.ForeignKey(
        "desk.Customer", models.CASCADE, related_name="charges", db_index=False
    )  # charge_latest begins with it
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
            check("charge_above_nought", Q(amount_minor__gt=0)),
            check("charge_refunds_from_nought", Q(refunded_minor__gte=0, held_minor__gte=0)),
            # The last guard of the cap, whatever the code does.
            check(
                "charge_refunds_within", Q(amount_minor__gte=F("refunded_minor") + F("held_minor"))
            ),
        ]
        indexes = [
            # The latest charge of a customer, which is the one that is refunded.
            index("charge_latest", "customer", "-paid_at", "-id")
        ]


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
            check("refund_above_nought", Q(amount_minor__gt=0)),
            # Paid or released, never both; no other state fits.
            check(
                "refund_times_fit_state",
                Q(state=RefundState.HELD, paid_at=None, released_at=None)
                | Q(state=RefundState.PAID, paid_at__isnull=False, released_at=None)
                | Q(state=RefundState.RELEASED, paid_at=None, released_at__isnull=False),
            ),
        ]


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
            check("mail_above_nought", Q(amount_minor__gt=0)),
            # It also lists the states: no other fits.
            check(
                "mail_time_fits_state",
                Q(state=MailState.SENDING, sent_at=None)
                | Q(state=MailState.SENT, sent_at__isnull=False),
            ),
        ]


class DailyMetrics(models.Model):
    """One day of one region. A part that is null was not reported."""

    book = models.ForeignKey("agents.Book", models.CASCADE, related_name="days")
    day = models.DateField()
    region = models.CharField(max_length=8)  # in capitals
    currency = models.CharField(max_length=3)
    gross_sales_minor = models.BigIntegerField(null=True)
    orders = models.PositiveIntegerField(null=True)
    failed_payments_per_mille = models.PositiveSmallIntegerField(null=True)  # of all payments
    chargeback_alerts = models.PositiveIntegerField(null=True)
    gateway_incident = models.CharField(max_length=80, default="none")
    low_stock_skus = models.JSONField(null=True)
    out_of_stock_skus = models.JSONField(null=True)
    restock_days = models.PositiveSmallIntegerField(null=True)

    class Meta:
        constraints = [
            once("metrics_day_once", "book", "day", "region"),
            check(
                "metrics_failed_within_all",
                Q(failed_payments_per_mille__isnull=True) | Q(failed_payments_per_mille__lte=1000),
            ),
            check(
                "metrics_sales_from_nought",
                Q(gross_sales_minor__isnull=True) | Q(gross_sales_minor__gte=0),
            ),
        ]
