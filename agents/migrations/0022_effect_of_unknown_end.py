from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0021_audit_filters")]

    operations = [
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(
                fields=["settled_at"],
                condition=models.Q(state="unknown"),
                name="effect_of_unknown_end",
            ),
        ),
    ]
