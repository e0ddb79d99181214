from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("agents", "0073_calls_executed_by_agents")]

    operations = [
        migrations.AddField(
            model_name="escalation",
            name="likeness",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                fields=["workspace", "subject_key", "decided_at"],
                condition=~Q(likeness=""),
                name="escalation_likeness",
            ),
        ),
    ]
