import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0010_endpoint"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="erased_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("erased_at__isnull", True), ("ended_at__isnull", False), _connector="OR"
                ),
                name="run_erased_has_ended",
            ),
        ),
        migrations.CreateModel(
            name="EventText",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("text", models.TextField(blank=True)),
                ("salt", models.CharField(blank=True, max_length=32)),
                ("erased_at", models.DateTimeField(null=True)),
                (
                    "event",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="texts",
                        to="agents.event",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("event", "name"), name="event_text_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("erased_at__isnull", True),
                            models.Q(("salt", ""), ("text", "")),
                            _connector="OR",
                        ),
                        name="event_text_erased_is_empty",
                    ),
                ],
            },
        ),
    ]
