"""Keep how handing over a mail broke off."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("desk", "0003_replies"),
    ]

    operations = [
        migrations.AddField(
            model_name="sentmail",
            name="fault",
            field=models.CharField(blank=True, db_default="", default="", max_length=300),
        ),
    ]
