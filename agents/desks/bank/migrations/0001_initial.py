from django.db import migrations, models
from django.db.models import F, Q

MINOR, TEXT, DAY = models.BigIntegerField, models.CharField, models.DateField
STATES = ("held", "posted", "released")
SPENT = F("paid_minor") + F("held_minor")


def _create(name, /, *constraints, **fields):
    named = {"auto_created": True, "serialize": False, "verbose_name": "ID"}
    columns = [("id", models.BigAutoField(primary_key=True, **named)), *fields.items()]
    return migrations.CreateModel(name, columns, {"constraints": list(constraints)})


def _to(model, name):
    return models.ForeignKey(on_delete=models.PROTECT, related_name=name, to=f"bank.{model}")


def _once(model, *fields):
    return models.UniqueConstraint(fields=fields, name=f"bank_{model}_once")


def _check(name, condition):
    return models.CheckConstraint(condition=condition, name=f"bank_{name}")


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        _create(
            "Account",
            _once("account", "book", "key"),
            _check("account_not_overdrawn", Q(opening_minor__gte=SPENT)),
            book=MINOR(),
            key=TEXT(max_length=40),
            name=TEXT(max_length=80),
            opening_minor=MINOR(),
            paid_minor=MINOR(default=0),
            held_minor=MINOR(default=0),
        ),
        _create(
            "Payee",
            _once("payee", "book", "key"),
            book=MINOR(),
            key=TEXT(max_length=40),
            name=TEXT(max_length=80),
            entered_on=DAY(),
            is_blocked=models.BooleanField(default=False),
            entry=TEXT(max_length=120, null=True, unique=True),
        ),
        _create(
            "Invoice",
            _once("invoice", "account", "key"),
            account=_to("account", "invoices"),
            key=TEXT(max_length=40),
            received_on=DAY(),
            text=models.TextField(),
        ),
        _create(
            "Transfer",
            _check("transfer_positive", Q(amount_minor__gt=0)),
            _check("transfer_state_known", Q(state__in=STATES)),
            account=_to("account", "transfers"),
            payee=_to("payee", "transfers"),
            key=TEXT(max_length=120, unique=True),
            amount_minor=MINOR(),
            on=DAY(),
            purpose=TEXT(max_length=140),
            state=TEXT(default="held", max_length=10),
            held_at=models.DateTimeField(),
        ),
    ]
