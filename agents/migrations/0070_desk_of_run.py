from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0069_claims_of_agents")]

    operations = [
        migrations.AlterField(model_name="run", name="desk", field=models.CharField(max_length=40))
    ]
