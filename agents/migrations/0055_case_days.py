import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0054_run_words")]

    operations = [
        migrations.CreateModel(
            name="CaseDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("outcome", models.CharField(blank=True, max_length=220)),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("count", models.PositiveBigIntegerField()),
                ("minor", models.BigIntegerField(default=0)),
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
                "indexes": [models.Index(fields=["outcome", "count"], name="case_day_outcome")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("day", "workspace", "outcome", "currency"), name="case_day_once"
                    )
                ],
            },
        ),
        # In the very order of the pages: the last column went the other way, and was sorted.
        migrations.RemoveIndex(model_name="escalation", name="escalation_decided"),
        migrations.RemoveIndex(model_name="run", name="run_list"),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                fields=["workspace", "-decided_at", "-id"], name="escalation_decided"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["workspace", "-created_at", "-id"], name="run_list"),
        ),
        migrations.AddIndex(
            model_name="step",
            index=models.Index(
                condition=models.Q(("kind", "ask")),
                fields=[
                    *("run", "model", "attempts", "tokens_in", "tokens_out", "tokens_lost"),
                    *("cost_micro_usd", "kind"),
                ],
                name="step_use",
            ),
        ),
    ]
