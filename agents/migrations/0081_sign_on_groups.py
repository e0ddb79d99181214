import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0080_policy_drafts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SignOnGroup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("value", models.CharField(max_length=200)),
                ("role", models.CharField(max_length=10)),
                ("teams", models.JSONField(default=list)),
                ("limits", models.JSONField(default=dict)),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="groups",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "value"), name="sign_on_group_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            role__in=["viewer", "operator", "reviewer", "auditor", "admin"]
                        ),
                        name="sign_on_group_role_known",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="SignOnPart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("groups", models.JSONField(default=list, null=True)),
                ("teams", models.JSONField(default=list)),
                ("role", models.CharField(blank=True, max_length=10)),
                ("limits", models.JSONField(default=dict)),
                ("is_removed", models.BooleanField(default=False)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "user"), name="sign_on_part_once")
                ]
            },
        ),
    ]
