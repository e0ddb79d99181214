"""Keep what a model's server did last, and when it came back."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0016_heads_by_workspace"),
    ]

    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="fault",
            field=models.CharField(blank=True, db_default="", max_length=300),
        ),
        migrations.AddField(
            model_name="endpoint",
            name="recovered_at",
            field=models.DateTimeField(null=True),
        ),
    ]
