from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0009_audit_head"),
    ]

    operations = [
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                ("address", models.CharField(max_length=500, primary_key=True, serialize=False)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("rests_until", models.DateTimeField(null=True)),
            ],
        ),
    ]
