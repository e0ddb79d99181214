"""Make the desk's tables of 0.2.0, the oldest version whose databases this program upgrades."""

import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("desk", "0001_initial"),
        ("desk", "0002_daily_metrics"),
        ("desk", "0003_replies"),
        ("desk", "0004_mail_fault"),
        ("desk", "0005_books_of_the_console"),
    ]

    initial = True

    dependencies = [("agents", "0001_squashed_0058_masked_values")]

    operations = [
        migrations.CreateModel(
            name="Customer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.BigIntegerField()),
                ("name", models.CharField(max_length=80)),
                ("email", models.EmailField(max_length=254)),
                ("country", models.CharField(max_length=2)),
                ("tier", models.CharField(max_length=20)),
                (
                    "book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="customers",
                        to="agents.book",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Charge",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("plan", models.CharField(max_length=40)),
                ("amount_minor", models.BigIntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("paid_at", models.DateTimeField()),
                ("refunded_minor", models.BigIntegerField(default=0)),
                ("held_minor", models.BigIntegerField(default=0)),
                (
                    "customer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="charges",
                        to="desk.customer",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Refund",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=120, unique=True)),
                ("amount_minor", models.BigIntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("reason", models.TextField(blank=True)),
                ("state", models.CharField(default="held", max_length=10)),
                ("reference", models.CharField(max_length=60, unique=True)),
                ("held_at", models.DateTimeField()),
                ("paid_at", models.DateTimeField(null=True)),
                ("released_at", models.DateTimeField(null=True)),
                (
                    "charge",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="refunds",
                        to="desk.charge",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SentMail",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=120, unique=True)),
                ("to", models.EmailField(max_length=254)),
                ("template", models.CharField(max_length=60)),
                ("subject", models.CharField(max_length=120)),
                ("body", models.TextField()),
                ("amount_minor", models.BigIntegerField(null=True)),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("state", models.CharField(default="sending", max_length=10)),
                ("reference", models.CharField(max_length=60, unique=True)),
                ("started_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(null=True)),
                ("fault", models.CharField(blank=True, db_default="", default="", max_length=300)),
                (
                    "book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="mails",
                        to="agents.book",
                    ),
                ),
                (
                    "customer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="mails",
                        to="desk.customer",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("plan", models.CharField(max_length=40)),
                ("price_minor", models.BigIntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("first_paid_at", models.DateTimeField()),
                (
                    "customer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="subscriptions",
                        to="desk.customer",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DailyMetrics",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("region", models.CharField(max_length=8)),
                ("currency", models.CharField(max_length=3)),
                ("gross_sales_minor", models.BigIntegerField(null=True)),
                ("orders", models.PositiveIntegerField(null=True)),
                ("failed_payments_per_mille", models.PositiveSmallIntegerField(null=True)),
                ("chargeback_alerts", models.PositiveIntegerField(null=True)),
                ("gateway_incident", models.CharField(default="none", max_length=80)),
                ("low_stock_skus", models.JSONField(null=True)),
                ("out_of_stock_skus", models.JSONField(null=True)),
                ("restock_days", models.PositiveSmallIntegerField(null=True)),
                (
                    "book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="days",
                        to="agents.book",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("book", "day", "region"), name="metrics_day_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("failed_payments_per_mille__isnull", True),
                            ("failed_payments_per_mille__lte", 1000),
                            _connector="OR",
                        ),
                        name="metrics_failed_within_all",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("gross_sales_minor__isnull", True),
                            ("gross_sales_minor__gte", 0),
                            _connector="OR",
                        ),
                        name="metrics_sales_from_nought",
                    ),
                ]
            },
        ),
        migrations.AddConstraint(
            model_name="customer",
            constraint=models.UniqueConstraint(
                fields=("book", "number"), name="customer_number_once"
            ),
        ),
        migrations.AddIndex(
            model_name="charge",
            index=models.Index(fields=["customer", "-paid_at", "-id"], name="charge_latest"),
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_minor__gt", 0)), name="charge_above_nought"
            ),
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.CheckConstraint(
                condition=models.Q(("held_minor__gte", 0), ("refunded_minor__gte", 0)),
                name="charge_refunds_from_nought",
            ),
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "amount_minor__gte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("refunded_minor"), "+", models.F("held_minor")
                        ),
                    )
                ),
                name="charge_refunds_within",
            ),
        ),
        migrations.AddConstraint(
            model_name="refund",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_minor__gt", 0)), name="refund_above_nought"
            ),
        ),
        migrations.AddConstraint(
            model_name="refund",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("paid_at", None), ("released_at", None), ("state", "held")),
                    models.Q(("paid_at__isnull", False), ("released_at", None), ("state", "paid")),
                    models.Q(
                        ("paid_at", None), ("released_at__isnull", False), ("state", "released")
                    ),
                    _connector="OR",
                ),
                name="refund_times_fit_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="sentmail",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_minor__gt", 0)), name="mail_above_nought"
            ),
        ),
        migrations.AddConstraint(
            model_name="sentmail",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("sent_at", None), ("state", "sending")),
                    models.Q(("sent_at__isnull", False), ("state", "sent")),
                    _connector="OR",
                ),
                name="mail_time_fits_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.CheckConstraint(
                condition=models.Q(("price_minor__gte", 0)), name="subscription_price_from_nought"
            ),
        ),
    ]
