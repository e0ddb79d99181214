"""Lists that people page through: the newest rows first, and the values to choose from."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from django.db import connection, connections
from django.db.models import Model, Q, QuerySet

# The newest rows of several workspaces, in one query that reads at most a page of each.
#
# Ordering by time over `workspace IN (...)` can use no index: a database would read and sort all
# rows. In a union by workspace, each part ends after a page, by its index.


M = TypeVar("M", bound=Model)


def newest(found: QuerySet[M], workspaces: Iterable[int], column: str, most: int) -> QuerySet[M]:
    """Return the `most` rows of these workspaces that are newest by `column`, then by key."""
    if found.query.is_empty():
        return found
    ordered = found.order_by(f"-{column}", "-pk")
    homes = list(workspaces)
    if len(homes) < 2:
        return ordered.filter(workspace__in=homes)[:most]
    # Django builds only two, as each takes it long; the others differ from these in one place.
    parts = [ordered.filter(workspace=one).values_list(column, "pk")[:most] for one in homes[:2]]
    (part, params), (_, others) = (one.query.sql_with_params() for one in parts)
    (at,) = (n for n, pair in enumerate(zip(params, others, strict=True)) if pair[0] != pair[1])
    asked = [f"SELECT * FROM ({part}) AS part_{n}" for n in range(len(homes))]  # noqa: S608
    sql = " UNION ALL ".join(asked) + f" ORDER BY 1 DESC, 2 DESC LIMIT {most}"
    given = [value for one in homes for value in (*params[:at], one, *params[at + 1 :])]
    with connections[found.db].cursor() as cursor:
        cursor.execute(sql, given)
        keys = [found.model._meta.pk.to_python(key) for _, key in cursor.fetchall()]
    return found.model._default_manager.filter(pk__in=keys).order_by(f"-{column}", "-pk")


def older(found: QuerySet[M], column: str, when: datetime, pk: object) -> QuerySet[M]:
    """Return the rows after a place in that order."""
    # A database begins there in its index only if a separate condition says so.
    behind = Q(**{f"{column}__lt": when}) | Q(**{column: when}, pk__lt=pk)
    return found.filter(behind, **{f"{column}__lte": when})


# The values that occur in a column, for a filter to offer.


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
