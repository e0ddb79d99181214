from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0059_tool_calls")]

    operations = [
        migrations.AddField(model_name="run", name="before", field=models.JSONField(null=True))
    ]
