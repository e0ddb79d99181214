import django.db.models.deletion
from django.db import migrations, models

_INDEX = "desk_charge_customer_id_7cba2715"


class Migration(migrations.Migration):
    dependencies = [("desk", "0078_charge_reference")]

    operations = [
        # Without the table: Django would copy SQLite's.
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(
                    f"DROP INDEX IF EXISTS {_INDEX}",
                    f"CREATE INDEX {_INDEX} ON desk_charge (customer_id)",
                )
            ],
            [
                migrations.AlterField(
                    model_name="charge",
                    name="customer",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="charges",
                        to="desk.customer",
                    ),
                )
            ],
        )
    ]
