"""Rows that hold what their columns cannot be: somebody wrote them past this program.

SQLite keeps any value in any column, but in one that is `INTEGER PRIMARY KEY`. By a fraction
between two numbers of heads, the next page of them would begin with itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import DataError, connection
from django.db.models import BooleanField, F, Func, Model, QuerySet

from agents.models import Head, Run

Rows = TypeVar("Rows", bound=QuerySet[Any])

# What a value raises that does not belong in its column.
UNREADABLE = (
    *(AttributeError, KeyError, TypeError, ValueError, OverflowError, DataError),
    RecursionError,  # JSON in JSON in JSON
    ObjectDoesNotExist,  # a row that is referred to is gone
)
_IS_KEY: dict[type[Model], dict[str, str]] = {
    Head: {
        "sqlite": "(typeof({key}) = 'integer' AND {key} > 0)",
        "postgresql": "({key} > 0)",
    },
    Run: {
        "sqlite": "(typeof({key}) = 'text' AND length({key}) = 32 AND {key} NOT GLOB '*[^0-9a-f]*')"
    },
}


def with_keys(rows: Rows) -> Rows:
    """Return the rows that can be asked for by their keys."""
    template = _IS_KEY[rows.model].get(connection.vendor)
    if template is None:
        return rows
    template = template.format(key="%(expressions)s")
    has_key = Func(F("pk"), template=template, output_field=BooleanField())
    return rows.alias(has_key=has_key).filter(has_key=True)


def list_false_keys() -> Iterator[tuple[type[Model], str]]:
    """Yield what stands for a key and is none, as the database spells it."""
    spell = {"sqlite": "quote({key})", "postgresql": "{key}::text"}[connection.vendor]
    with connection.cursor() as cursor:
        for model, conditions in _IS_KEY.items():
            table, key = model._meta.db_table, model._meta.pk.column
            if condition := conditions.get(connection.vendor):
                shown, is_key = spell.format(key=key), condition.format(key=key)
                cursor.execute(f"SELECT {shown} FROM {table} WHERE NOT {is_key}")  # noqa: S608
                for (found,) in cursor.fetchall():
                    yield model, found


@contextmanager
def any_text() -> Iterator[None]:
    """Have SQLite hand over text that is no UTF-8: its place can be named then."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    database = connection.connection
    database.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        yield
    finally:
        database.text_factory = str
