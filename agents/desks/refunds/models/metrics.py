"""A day in numbers: a region's sales, payments and stock."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


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
            models.UniqueConstraint(fields=["book", "day", "region"], name="metrics_day_once"),
            models.CheckConstraint(
                condition=Q(failed_payments_per_mille__isnull=True)
                | Q(failed_payments_per_mille__lte=1000),
                name="metrics_failed_within_all",
            ),
            models.CheckConstraint(
                condition=Q(gross_sales_minor__isnull=True) | Q(gross_sales_minor__gte=0),
                name="metrics_sales_from_nought",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.region} {self.day}"
