"""Rows with values of the wrong type for their columns, written by another program.

SQLite keeps any value in any column except an `INTEGER PRIMARY KEY`. A fraction as a head's number
would make reading page by page endless.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from django.db import connection
from django.db.models import BooleanField, F, Func, Model, QuerySet

from agents.models import Head, Run

Rows = TypeVar("Rows", bound=QuerySet[Any])

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
    """Keep the rows that can be read by key."""
    template = _IS_KEY[rows.model].get(connection.vendor)
    if template is None:
        return rows
    template = template.format(key="%(expressions)s")
    has_key = Func(F("pk"), template=template, output_field=BooleanField())
    return rows.alias(has_key=has_key).filter(has_key=True)


def list_false_keys() -> Iterator[tuple[type[Model], str]]:
    """Yield each model and value that is stored as a key and is not a valid one."""
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
    """Let SQLite return text that is not UTF-8, so that its place can be named."""
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
