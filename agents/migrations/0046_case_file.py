from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0045_books")]

    operations = [
        migrations.AddIndex(
            model_name="head",
            index=models.Index(fields=["upto", "number"], name="head_upto"),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(fields=["run"], name="notification_of_run"),
        ),
    ]
