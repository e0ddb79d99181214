"""Search every table of the database, including ones nobody thought of."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from django.db import connection


def places_of(text: str) -> list[str]:
    """Return where a text stands, as "table.column rows", whatever the type of the column.

    JSON may escape a text, so search for one without characters to escape.
    """
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            for column in connection.introspection.get_table_description(cursor, table):
                name = connection.ops.quote_name(column.name)
                within = (
                    f"SELECT count(*) FROM {connection.ops.quote_name(table)} "  # noqa: S608
                    f"WHERE CAST({name} AS text) LIKE %s ESCAPE '!'"
                )
                cursor.execute(within, [f"%{text.replace('%', '!%').replace('_', '!_')}%"])
                if rows := cursor.fetchone()[0]:
                    found.append(f"{table}.{column.name} {rows}")
    return found


def contents() -> dict[str, list[str]]:
    """Return every row of every table as text, in an order that does not depend on writes."""
    with connection.cursor() as cursor:
        return {
            table: sorted(
                str(row)
                for row in cursor.execute(
                    f"SELECT * FROM {connection.ops.quote_name(table)}"  # noqa: S608
                ).fetchall()
            )
            for table in connection.introspection.table_names(cursor)
        }


def texts_in_files(texts: Iterable[str]) -> list[str]:
    """Return which texts occur in SQLite's files, free pages included."""
    path = Path(str(connection.settings_dict["NAME"]))
    files = sorted(path.parent.glob(f"{path.name}*"))
    # Read by another process: closing such a file here would drop SQLite's own locks on it,
    # and the next to close the database would remove the log from under the others.
    held = subprocess.run(["/bin/cat", *files], capture_output=True, check=True).stdout
    return [text for text in texts if text.encode() in held]
