from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0081_sign_on_groups")]

    operations = [
        migrations.AddField(
            model_name="workspace",
            name="counts_provider_factor",
            field=models.BooleanField(db_default=False, default=False),
        )
    ]
