"""Keep from which account a command decided in somebody's name."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0019_launched_again"),
    ]

    operations = [
        migrations.AddField(
            model_name="escalation",
            name="decided_from",
            field=models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
    ]
