from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0070_desk_of_run")]

    operations = [
        migrations.AddField(
            model_name="agentcall", name="reported", field=models.JSONField(null=True)
        ),
        migrations.AddField(
            model_name="effect", name="report_due_at", field=models.DateTimeField(null=True)
        ),
    ]
