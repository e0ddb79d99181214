"""Point to the console's books, whose rows are the same. Nothing in the database changes."""

import django.db.models.deletion as deletion
from django.db import migrations, models


def book(on_delete, related_name):
    return models.ForeignKey(on_delete=on_delete, related_name=related_name, to="agents.book")


class Migration(migrations.Migration):
    dependencies = [("desk", "0004_mail_fault"), ("agents", "0045_books")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("customer", "book", book(deletion.CASCADE, "customers")),
                migrations.AlterField("dailymetrics", "book", book(deletion.CASCADE, "days")),
                migrations.AlterField("sentmail", "book", book(deletion.PROTECT, "mails")),
                migrations.DeleteModel("Book"),
            ]
        )
    ]
