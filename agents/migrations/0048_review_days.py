from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0047_sent_back"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReviewDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("rule", models.CharField(blank=True, max_length=100)),
                ("figures", models.JSONField()),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="+",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace", "day"], name="review_day_range"),
                    models.Index(fields=["day"], name="review_day_newest"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("user", None)),
                        fields=("workspace", "day", "rule"),
                        name="review_day_of_rule_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)),
                        fields=("workspace", "day", "user"),
                        name="review_day_of_person_once",
                    ),
                ],
            },
        ),
    ]
