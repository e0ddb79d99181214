from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0055_case_days")]

    operations = [
        migrations.AddField(
            model_name="head",
            name="proof",
            field=models.CharField(max_length=64, null=True),
        ),
    ]
