from django.db import migrations

from agents.db import run_words


def make(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for statement in run_words.POSTGRES:
            schema_editor.execute(statement)
    else:  # one statement that SQLite carries out row by row, in no more memory for more runs
        schema_editor.execute(run_words.SQLITE_TABLE)
        schema_editor.execute(run_words.SQLITE_FILL)


def drop(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE agents_run DROP COLUMN words")
    else:
        schema_editor.execute(f"DROP TABLE {run_words.TABLE}")


class Migration(migrations.Migration):
    dependencies = [("agents", "0053_database_size")]

    operations = [migrations.RunPython(make, drop)]
