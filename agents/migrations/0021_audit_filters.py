"""Index what the audit log is filtered by: kind, person, time, amount."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0020_decided_from"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(fields=["amount_minor", "run"], name="effect_amount"),
        ),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                fields=["workspace", "requested_minor"], name="escalation_requested"
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(
                    (
                        "kind__in",
                        (
                            "audit.exported",
                            "book.imported",
                            "decision.refused",
                            "effect.done",
                            "effect.refused",
                            "effect.unknown",
                            "escalation.decided",
                            "escalation.expired",
                            "escalation.not_carried_out",
                            "escalation.opened",
                            "kill_switch.off",
                            "kill_switch.on",
                            "kill_switch.trial",
                            "member.set",
                            "person.erased",
                            "policy.created",
                            "policy.published",
                            "run.failed",
                            "run.stopped",
                            "workspace.created",
                        ),
                    )
                ),
                fields=["workspace", "id"],
                name="event_ledger",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["workspace", "kind", "id"], name="event_kind"),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("actor", ""), _negated=True),
                fields=["workspace", "actor", "id"],
                name="event_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["workspace", "at"], name="event_time"),
        ),
    ]
