from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_squashed_0058_masked_values")]

    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="tool_calls",
            field=models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        )
    ]
