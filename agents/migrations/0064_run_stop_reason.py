from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0063_calls_taken_back")]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["workspace", "stop_reason"], name="run_stop_reason"),
        )
    ]
