"""A customer, and their subscriptions."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Customer(models.Model):
    """A customer, identified by a number within a book."""

    book = models.ForeignKey("agents.Book", models.CASCADE, related_name="customers")
    number = models.BigIntegerField()
    name = models.CharField(max_length=80)
    email = models.EmailField()
    country = models.CharField(max_length=2)
    tier = models.CharField(max_length=20)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["book", "number"], name="customer_number_once"),
        ]

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
        constraints = [
            models.CheckConstraint(
                condition=Q(price_minor__gte=0), name="subscription_price_from_nought"
            ),
        ]

    def __str__(self) -> str:
        return self.plan
