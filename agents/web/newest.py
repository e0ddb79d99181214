"""The newest rows of several workspaces, in one question that reads no more than a page of each.

An order by time over `workspace IN (...)` has no index: a database reads and sorts all rows of all
of them. With one workspace at a time, each part ends after a page, by the index of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from django.db import connections
from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)


def newest(found: QuerySet[M], workspaces: Iterable[int], column: str, most: int) -> QuerySet[M]:
    """Return the `most` rows of these workspaces that are newest by `column`, then by key."""
    if found.query.is_empty():
        return found
    ordered = found.order_by(f"-{column}", "-pk")
    parts = [ordered.filter(workspace=one).values_list(column, "pk")[:most] for one in workspaces]
    if len(parts) < 2:
        return ordered.filter(workspace__in=workspaces)[:most]
    asked, params = list[str](), list[Any]()
    for number, part in enumerate(parts):
        sql, given = part.query.sql_with_params()
        asked.append(f"SELECT * FROM ({sql}) AS part_{number}")  # noqa: S608 - Django's own
        params += given
    sql = " UNION ALL ".join(asked) + f" ORDER BY 1 DESC, 2 DESC LIMIT {most}"
    with connections[found.db].cursor() as cursor:
        cursor.execute(sql, params)
        keys = [found.model._meta.pk.to_python(key) for _, key in cursor.fetchall()]
    return found.model._default_manager.filter(pk__in=keys).order_by(f"-{column}", "-pk")
