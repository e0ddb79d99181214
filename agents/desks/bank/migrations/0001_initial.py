from django.db import migrations, models
from django.db.models import F, Q

STATES = ("held", "posted", "released")
SPENT = F("paid_minor") + F("held_minor")
TEXT, DAY, MINOR = models.CharField, models.DateField, models.BigIntegerField


def _id():
    named = {"auto_created": True, "serialize": False, "verbose_name": "ID"}
    return ("id", models.BigAutoField(primary_key=True, **named))


def _to(model, name):
    return models.ForeignKey(on_delete=models.PROTECT, related_name=name, to=f"bank.{model}")


def _once(name, *fields):
    return models.UniqueConstraint(fields=fields, name=name)


def _check(name, condition):
    return models.CheckConstraint(condition=condition, name=name)


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Account",
            fields=[
                _id(),
                ("book", MINOR()),
                ("key", TEXT(max_length=40)),
                ("name", TEXT(max_length=80)),
                ("opening_minor", MINOR()),
                ("paid_minor", MINOR(default=0)),
                ("held_minor", MINOR(default=0)),
            ],
            options={
                "constraints": [
                    _once("bank_account_once", "book", "key"),
                    _check("bank_account_not_overdrawn", Q(opening_minor__gte=SPENT)),
                ]
            },
        ),
        migrations.CreateModel(
            name="Payee",
            fields=[
                _id(),
                ("book", MINOR()),
                ("key", TEXT(max_length=40)),
                ("name", TEXT(max_length=80)),
                ("entered_on", DAY()),
                ("is_blocked", models.BooleanField(default=False)),
                ("entry", TEXT(max_length=120, null=True, unique=True)),
            ],
            options={"constraints": [_once("bank_payee_once", "book", "key")]},
        ),
        migrations.CreateModel(
            name="Invoice",
            fields=[
                _id(),
                ("account", _to("account", "invoices")),
                ("key", TEXT(max_length=40)),
                ("received_on", DAY()),
                ("text", models.TextField()),
            ],
            options={"constraints": [_once("bank_invoice_once", "account", "key")]},
        ),
        migrations.CreateModel(
            name="Transfer",
            fields=[
                _id(),
                ("account", _to("account", "transfers")),
                ("payee", _to("payee", "transfers")),
                ("key", TEXT(max_length=120, unique=True)),
                ("amount_minor", MINOR()),
                ("on", DAY()),
                ("purpose", TEXT(max_length=140)),
                ("state", TEXT(default="held", max_length=10)),
                ("held_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    _check("bank_transfer_positive", Q(amount_minor__gt=0)),
                    _check("bank_transfer_state_known", Q(state__in=STATES)),
                ]
            },
        ),
    ]
