"""The values that occur in a column, for a filter to offer."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection
from django.db.models import Model

MOST = 1000  # values that are read


def occurring(
    model: type[Model], column: str, workspaces: Iterable[int], *, condition: str = "true"
) -> set[str]:
    """Return what stands in a text column of these workspaces, "" aside, in one query.

    From each value to the next by an index of workspace and column, however many rows have it.
    Where that is a partial one, its `condition` is repeated, of the row `e`.
    """
    homes = ", ".join(str(int(one)) for one in workspaces)
    if not homes:
        return set()
    # With another bound beside this one SQLite may begin at that, and read every row.
    after = (
        f"(SELECT e.{column} FROM {model._meta.db_table} e WHERE e.workspace_id = {{}} "  # noqa: S608
        f"AND e.{column} > {{}} AND {condition} ORDER BY e.{column} LIMIT 1)"
    )
    first, following = after.format("w.id", "''"), after.format("k.w", "k.v")
    sql = (
        f"WITH RECURSIVE k(w, v) AS (SELECT w.id, {first} FROM agents_workspace w "  # noqa: S608
        f"WHERE w.id IN ({homes}) UNION ALL SELECT k.w, {following} FROM k WHERE v IS NOT NULL) "
        f"SELECT v FROM k WHERE v IS NOT NULL LIMIT {MOST}"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return {value for (value,) in cursor.fetchall()}
