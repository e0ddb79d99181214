"""Keep why an approval came to nothing, and what the granted money is for.

Of runs that ended before, the reason is that of their end. It has no event of its own: the record
tells what was said when it was.
"""

from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import Exists, OuterRef, Subquery

ENDED = ("done", "stopped", "failed")
MAYBE_DONE = ("intended", "done", "unknown")


def fill(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    escalations = apps.get_model("agents", "Escalation").objects.using(editor.connection.alias)
    effects = apps.get_model("agents", "Effect").objects.using(editor.connection.alias)
    ours = effects.filter(escalation=OuterRef("pk"), state__in=MAYBE_DONE)
    granted = escalations.filter(granted_minor__isnull=False)
    granted.update(charge=Subquery(ours.values("charge")[:1]))
    nothing = granted.filter(~Exists(ours), run__state__in=ENDED)
    for escalation in nothing.select_related("run").only("run__stop_reason").iterator():
        code = ":".join(escalation.run.stop_reason.split(":")[:2])[:120] or "unknown"
        escalations.filter(pk=escalation.pk).update(not_carried_out=code)


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0013_fewer_indexes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="escalation",
            name="charge",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="escalation",
            name="not_carried_out",
            field=models.CharField(blank=True, db_default="", default="", max_length=120),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                condition=models.Q(("not_carried_out", ""), _negated=True),
                fields=["workspace", "-decided_at", "-id"],
                name="escalation_not_carried_out",
            ),
        ),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                condition=models.Q(("granted_minor__isnull", False)),
                fields=["decided_by", "decided_at"],
                name="escalation_granted",
            ),
        ),
    ]
