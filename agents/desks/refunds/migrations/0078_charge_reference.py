from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("desk", "0001_squashed_0005_books_of_the_console")]

    operations = [
        migrations.AddField(
            model_name="charge",
            name="reference",
            field=models.CharField(blank=True, db_default="", default="", max_length=60),
        )
    ]
