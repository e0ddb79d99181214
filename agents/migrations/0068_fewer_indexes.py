import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def drop(table, column, index):
    """Drop the index of a foreign key alone: Django would rebuild SQLite's table for that."""
    made = f"CREATE INDEX {index} ON {table} ({column})"
    return migrations.RunSQL(f"DROP INDEX IF EXISTS {index}", made)


class Migration(migrations.Migration):
    """Drop or narrow indexes that each run wrote to, and that no page needs."""

    dependencies = [
        ("agents", "0067_keys_of_workspaces"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(model_name="event", name="event_kind"),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(
                    ("kind__in", ("run.claimed", "step.begun", "step.done")), _negated=True
                ),
                fields=["workspace", "kind", "id"],
                name="event_kind",
            ),
        ),
        migrations.RemoveIndex(model_name="event", name="event_time"),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("seq", 1)), fields=["workspace", "at"], name="event_time"
            ),
        ),
        migrations.SeparateDatabaseAndState(
            [drop("agents_effect", "review_id", "agents_effect_review_id_e45414a0")],
            [
                migrations.AlterField(
                    model_name="effect",
                    name="review",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.step",
                    ),
                )
            ],
        ),
        migrations.SeparateDatabaseAndState(
            [
                drop(
                    *("agents_escalation", "decided_by_id"),
                    "agents_escalation_decided_by_id_475d49f7",
                )
            ],
            [
                migrations.AlterField(
                    model_name="escalation",
                    name="decided_by",
                    field=models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                )
            ],
        ),
    ]
