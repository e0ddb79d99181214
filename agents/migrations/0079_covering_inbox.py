from django.db import migrations, models
from django.db.models import Q


def _mark(apps, schema_editor):
    """Mark the open requests whose facts hold doubts."""
    held = apps.get_model("agents", "Escalation").objects.filter(state="open")
    held.filter(review__facts__doubts__0__isnull=False).update(is_marked=True)


class Migration(migrations.Migration):
    """Answer the inbox from an index of open requests alone."""

    dependencies = [("agents", "0078_sign_on")]

    operations = [
        migrations.AddField(
            model_name="escalation",
            name="is_marked",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RunPython(_mark, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name="escalation", name="escalation_inbox"),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                name="escalation_inbox",
                fields=[
                    *("workspace", "expires_at", "id", "frozen_at", "kind", "currency"),
                    *("amount_minor", "claimed_by", "claimed_until", "assigned_to"),
                    *("assigned_team", "approval", "is_marked", "run", "step"),
                ],
                condition=Q(state="open"),
            ),
        ),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                name="escalation_expired",
                fields=["expires_at", "workspace"],
                condition=Q(state="expired"),
            ),
        ),
    ]
