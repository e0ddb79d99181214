"""Keep every limit of a person by desk and currency."""

from django.db import migrations


def move(apps, schema_editor):
    membership = apps.get_model("agents", "Membership")
    for part in membership.objects.exclude(refund_limit_minor=None):
        part.desk_limits["refunds"] = {"USD": part.refund_limit_minor}
        part.save(update_fields=["desk_limits"])


class Migration(migrations.Migration):
    dependencies = [("agents", "0029_drop_columns_of_refunds")]

    operations = [migrations.RunPython(move, migrations.RunPython.noop)]
