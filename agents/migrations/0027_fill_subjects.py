"""Say of all that was there before whom it is about, in the columns of any desk."""

from django.db import migrations
from django.db.models import Case, CharField, Exists, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Cast, Coalesce, Concat


def fill(apps, schema_editor):
    run, customer = apps.get_model("agents", "Run"), apps.get_model("desk", "Customer")
    number = Cast("subject", CharField())
    ours = run.objects.filter(desk="refunds", subject__isnull=False)
    ours.update(subject_key=number, subject_label=Concat(Value("customer "), number))
    # Of who was forgotten only the number is left.
    named = customer.objects.filter(book=OuterRef("book"), number=OuterRef("subject"), name__gt="")
    name = Subquery(named.values("name")[:1])
    ours.filter(Exists(named)).update(subject_label=Concat(name, Value(" #"), number))

    effect, escalation = apps.get_model("agents", "Effect"), apps.get_model("agents", "Escalation")
    of_run = Subquery(run.objects.filter(pk=OuterRef("run")).values("subject_key"))
    for model in (effect, escalation):
        # What names nobody is about what its run is about.
        model.objects.filter(subject_key="").update(
            subject_key=Coalesce(Cast("customer", CharField()), of_run),
            resource=Coalesce(Cast("charge", CharField()), Value("")),
        )
    escalation.objects.filter(amount_minor=None).update(
        amount_minor=F("requested_minor"),
        currency=Case(When(Q(requested_minor=None), Value("")), default=F("currency")),
    )


class Migration(migrations.Migration):
    dependencies = [("agents", "0026_subjects_of_any_desk"), ("desk", "0004_mail_fault")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
