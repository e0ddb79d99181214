from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0074_likeness_of_decided_calls")]

    operations = [
        migrations.AddField(
            model_name="delivery",
            name="channel",
            field=models.CharField(blank=True, db_default="", default="", max_length=20),
        ),
        migrations.AddField(
            model_name="notificationpreference",
            name="channel",
            field=models.CharField(blank=True, db_default="", default="", max_length=20),
        ),
    ]
