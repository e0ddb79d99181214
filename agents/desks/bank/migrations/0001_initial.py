from django.db import migrations, models
from django.db.models import F, Q

MINOR, TEXT, DAY = models.BigIntegerField, models.CharField, models.DateField
STATES = ("held", "posted", "released")
SPENT = F("paid_minor") + F("held_minor")


def _create(name, /, *constraints, **fields):
    named = {"auto_created": True, "serialize": False, "verbose_name": "ID"}
    columns = [("id", models.BigAutoField(primary_key=True, **named)), *fields.items()]
    return migrations.CreateModel(name, columns, {"constraints": list(constraints)})


class Migration(migrations.Migration):
    initial = True
    operations = [
        _create(
            "Account",
            models.UniqueConstraint(fields=["book", "key"], name="bank_account_once"),
            models.CheckConstraint(
                condition=Q(opening_minor__gte=SPENT), name="bank_account_not_overdrawn"
            ),
            book=MINOR(),
            key=TEXT(max_length=40),
            name=TEXT(max_length=80),
            opening_minor=MINOR(),
            paid_minor=MINOR(default=0),
            held_minor=MINOR(default=0),
        ),
        _create(
            "Payee",
            models.UniqueConstraint(fields=["book", "key"], name="bank_payee_once"),
            book=MINOR(),
            key=TEXT(max_length=40),
            name=TEXT(max_length=80),
            entered_on=DAY(),
            is_blocked=models.BooleanField(default=False),
            entry=TEXT(max_length=120, null=True, unique=True),
        ),
        _create(
            "Invoice",
            models.UniqueConstraint(fields=["account", "key"], name="bank_invoice_once"),
            account=models.ForeignKey("bank.account", models.PROTECT, related_name="invoices"),
            key=TEXT(max_length=40),
            received_on=DAY(),
            text=models.TextField(),
        ),
        _create(
            "Transfer",
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="bank_transfer_positive"),
            models.CheckConstraint(condition=Q(state__in=STATES), name="bank_transfer_state_known"),
            account=models.ForeignKey("bank.account", models.PROTECT, related_name="transfers"),
            payee=models.ForeignKey("bank.payee", models.PROTECT, related_name="transfers"),
            key=TEXT(max_length=120, unique=True),
            amount_minor=MINOR(),
            on=DAY(),
            purpose=TEXT(max_length=140),
            state=TEXT(default="held", max_length=10),
            held_at=models.DateTimeField(),
        ),
    ]
