from django.db import migrations

SIGNS = r"E'[\\x01-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7f]+'"  # of ASCII; the parser knows others
WORDS = f"to_tsvector('simple', regexp_replace(%s, {SIGNS}, ' ', 'g'))"
KNOWN_BY = "replace(id::text, '-', '') || ' ' || subject_key || ' ' || subject_label || ' ' || goal"
POSTGRES = (
    "ALTER TABLE agents_run ADD COLUMN words tsvector GENERATED ALWAYS AS"
    f" (setweight({WORDS % 'stop_reason'}, 'A') || {WORDS % KNOWN_BY}) STORED",
    # What was written last lies in a list that each search reads: a short one, in kB.
    "CREATE INDEX run_words ON agents_run USING gin (words) WITH (gin_pending_list_limit = 256)",
)
SQLITE = (
    "CREATE VIRTUAL TABLE agents_run_words USING fts5"
    "(workspace, run, goal, subject, stop_reason, tokenize = 'unicode61 remove_diacritics 0')",
    # In the order of time, in which a search reads it backwards. One statement, row by row: in no
    # more memory for more runs.
    "INSERT INTO agents_run_words (workspace, run, goal, subject, stop_reason)"
    " SELECT workspace_id, id, goal, subject_key || ' ' || subject_label, stop_reason"
    " FROM agents_run ORDER BY created_at, id",
)


def make(apps, schema_editor):
    is_postgres = schema_editor.connection.vendor == "postgresql"
    for statement in POSTGRES if is_postgres else SQLITE:
        schema_editor.execute(statement)


def drop(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE agents_run DROP COLUMN words")
    else:
        schema_editor.execute("DROP TABLE agents_run_words")


class Migration(migrations.Migration):
    dependencies = [("agents", "0053_database_size")]

    operations = [migrations.RunPython(make, drop)]
