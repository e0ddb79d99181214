"""Drop the indexes that others begin with: each commit wrote them for nothing.

Only the index is dropped. Altering the field would have SQLite write the whole table anew.
"""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

COLUMNS = (
    ("Step", "run"),
    ("Event", "run"),
    ("EventText", "event"),
    ("Run", "workspace"),
    ("Escalation", "workspace"),
)


def drop(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    for name, column in _columns(apps):
        with editor.connection.cursor() as cursor:
            found = editor.connection.introspection.get_constraints(cursor, name)
        for index, about in found.items():
            if about["index"] and not about["unique"] and about["columns"] == [column]:
                editor.execute(f"DROP INDEX {editor.quote_name(index)}")


def make(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    for name, column in _columns(apps):
        table, about = editor.quote_name(name), editor.quote_name(column)
        index = editor.quote_name(f"{name}_{column}_again")
        editor.execute(f"CREATE INDEX {index} ON {table} ({about})")


def _columns(apps: Apps) -> list[tuple[str, str]]:
    """Return the table and the column of each."""
    models = [(apps.get_model("agents", name), field) for name, field in COLUMNS]
    return [(model._meta.db_table, model._meta.get_field(field).column) for model, field in models]


class Migration(migrations.Migration):
    dependencies = [("agents", "0012_sweep")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(drop, make)],
            state_operations=[
                migrations.AlterField(
                    model_name="escalation",
                    name="workspace",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=models.deletion.PROTECT,
                        related_name="escalations",
                        to="agents.workspace",
                    ),
                ),
                migrations.AlterField(
                    model_name="event",
                    name="run",
                    field=models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.deletion.PROTECT,
                        related_name="events",
                        to="agents.run",
                    ),
                ),
                migrations.AlterField(
                    model_name="eventtext",
                    name="event",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=models.deletion.CASCADE,
                        related_name="texts",
                        to="agents.event",
                    ),
                ),
                migrations.AlterField(
                    model_name="run",
                    name="workspace",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=models.deletion.PROTECT,
                        related_name="runs",
                        to="agents.workspace",
                    ),
                ),
                migrations.AlterField(
                    model_name="step",
                    name="run",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=models.deletion.CASCADE,
                        related_name="steps",
                        to="agents.run",
                    ),
                ),
            ],
        )
    ]
