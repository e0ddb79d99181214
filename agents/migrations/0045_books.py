"""Take books over from the first desk. Nothing in the database changes: the table keeps its name."""

import django.db.models.deletion as deletion
from django.db import migrations, models

BOOK = models.ForeignKey(on_delete=deletion.PROTECT, related_name="+", to="agents.book")
NUMBER = models.BigAutoField(
    auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
)


class Migration(migrations.Migration):
    dependencies = [("agents", "0038_people"), ("desk", "0004_mail_fault")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Book",
                    fields=[
                        ("id", NUMBER),
                        ("name", models.CharField(max_length=80)),
                        ("is_demo", models.BooleanField(default=False)),
                        ("is_isolated", models.BooleanField(default=False)),
                        ("created_at", models.DateTimeField()),
                    ],
                    options={"db_table": "desk_book"},
                ),
                migrations.AlterField("run", "book", BOOK),
                migrations.AlterField("workspace", "book", BOOK.clone()),
            ]
        )
    ]
