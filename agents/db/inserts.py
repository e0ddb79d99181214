"""Rows of the hot path, written by their columns: one statement, without Django's signals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Field, JSONField, Model
from django.db.models.base import ModelState

from agents.db.adapters import to_driver
from agents.db.compiled import Compiled, CompiledSelect, fill_params
from agents.db.driver import STATEMENTS, Pending, pipeline, require_answer, send

M = TypeVar("M", bound=Model)
NO_KEYS: Mapping[str, Any] = MappingProxyType({})


def insert_rows(*rows: Model) -> None:
    """Insert rows of one model in one statement, and give them their keys. Sends no signals."""
    send_rows(*rows).get()


def send_rows(*rows: Model) -> Pending[None]:
    """Insert rows, maybe together with other things; `get` gives them their keys."""
    model, is_numbered = type(rows[0]), rows[0].pk is None
    keys = send_columns(model, [vars(row) for row in rows], is_numbered)

    def take_keys() -> None:
        found = keys.get() if is_numbered else [row.pk for row in rows]
        for row, key in zip(rows, found, strict=True):
            _mark_saved(row, key)

    return Pending(take_keys)


def _mark_saved(row: Model, key: object) -> None:
    """Note on a row that it is in the database, under this key."""
    row.pk = key
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def send_columns(
    model: type[Model],
    rows: Sequence[Mapping[str, Any]],
    is_numbered: bool = True,
    keys: Mapping[str, CompiledSelect[Any]] = NO_KEYS,
) -> Pending[list[Any]]:
    """Insert rows that are no models yet, by their columns; the answer is their keys.

    A column in `keys` holds the key that its query finds: a row has in it what that is given. So
    rows can be sent together with those that they refer to.
    """
    database = connections[DEFAULT_DB_ALIAS]
    found = {name: query.for_database(database) for name, query in keys.items()}
    places = tuple((name, f"({query.sql})") for name, query in found.items())
    sql, columns = _insert(model, is_numbered, len(rows), places)
    values: list[Any] = []
    for row in rows:
        values += _values(row, columns, database.vendor, found)
    done = send(database, sql, values)
    return Pending(lambda: [key for (key,) in require_answer(done).fetchall()])


def insert_new(row: Model) -> bool:
    """Insert a numbered row, unless one like it is there. Return False if so.

    It is there if any unique column has the value: whoever names one of several still fails at
    another, where two insert the same row at once. Waits for a transaction that has inserted it;
    the own one goes on either way.
    """
    database = connections[DEFAULT_DB_ALIAS]
    sql, columns = _insert(type(row), True, 1, unless=" ON CONFLICT DO NOTHING")
    with pipeline():  # with a BEGIN before it
        done = send(database, sql, _values(vars(row), columns, database.vendor))
    keys = require_answer(done).fetchall()
    for (key,) in keys:
        _mark_saved(row, key)
    return bool(keys)


def update_row(row: Model, *names: str) -> None:
    """Write the columns `names` of a row, or all of them where none is named."""
    database = connections[DEFAULT_DB_ALIAS]
    sql, columns = _update(type(row), names)
    send(database, sql, _values(vars(row), columns, database.vendor))


def new_row(model: type[M], **columns: object) -> M:
    """Return a row to insert as `model(**columns)` does, without its signals.

    Columns have the names of their attributes: `run_id`.
    """
    row = model.__new__(model)
    constant, made = _defaults(model)
    vars(row).update(constant)
    for name, make in made:
        if name not in columns:
            columns[name] = make()
    vars(row).update(columns)
    row._state = ModelState()
    return row


class _Column(NamedTuple):
    """A column to write: the attribute that has its value."""

    name: str
    is_json: bool


Columns: TypeAlias = tuple[_Column, ...]


def _columns(fields: Iterable[Field[Any, Any]]) -> Columns:
    return tuple(_Column(field.attname, isinstance(field, JSONField)) for field in fields)


@cache
def _defaults(
    model: type[Model],
) -> tuple[dict[str, object], tuple[tuple[str, Callable[[], object]], ...]]:
    """Return what columns of a new row hold: always the same, and what is made each time."""
    fields = model._meta.concrete_fields
    made = [field for field in fields if callable(field.default)]
    constant = {f.attname: f.get_default() for f in fields if f not in made}
    return constant, tuple((field.attname, field.get_default) for field in made)


@lru_cache(STATEMENTS)
def _insert(
    model: type[Model],
    is_numbered: bool,
    count: int,
    keys: tuple[tuple[str, str], ...] = (),
    unless: str = "",
) -> tuple[str, Columns]:
    """Return an INSERT of so many rows, and the columns of each; keys come back if numbered."""
    fields = [f for f in model._meta.concrete_fields if not (is_numbered and f.primary_key)]
    names = ", ".join(_quote(field) for field in fields)
    start = f"INSERT INTO {connection.ops.quote_name(model._meta.db_table)} ({names}) VALUES"
    found = dict(keys)
    row = ", ".join(found.get(field.attname, "%s") for field in fields)
    places = ", ".join([f"({row})"] * count)
    end = f" RETURNING {_quote(model._meta.pk)}" if is_numbered else ""
    return f"{start} {places}{unless}{end}", _columns(fields)


@cache
def _update(model: type[Model], names: tuple[str, ...]) -> tuple[str, Columns]:
    """Return an UPDATE of one row, and its columns with the key last."""
    key = model._meta.pk
    changed = [f for f in model._meta.concrete_fields if not names or f.name in names]
    fields = tuple(field for field in changed if field is not key)
    places = ", ".join(f"{_quote(field)} = %s" for field in fields)
    table = connection.ops.quote_name(model._meta.db_table)
    sql = f"UPDATE {table} SET {places} WHERE {_quote(key)} = %s"  # noqa: S608 - our own names
    return sql, _columns((*fields, key))


def _quote(field: Field[Any, Any]) -> str:
    return str(connection.ops.quote_name(str(field.column)))


def _values(
    row: Mapping[str, Any], columns: Columns, vendor: str, keys: Mapping[str, Compiled] = NO_KEYS
) -> list[Any]:
    """Return what the driver takes for these columns of a row, and what `keys` are found by."""
    if keys:
        return [
            value
            for column in columns
            for value in (
                fill_params(keys[column.name].places, row[column.name], vendor)
                if column.name in keys
                else _values(row, (column,), vendor)
            )
        ]
    return [to_driver(row[name], vendor, is_json=is_json) for name, is_json in columns]
