"""Write rows of the hot path by column: one statement, without Django's signals."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Field, JSONField, Model
from django.db.models.base import ModelState

from agents.db.compiled import AS_THEY_ARE, CompiledSelect, attach, fill_params, to_driver
from agents.db.driver import STATEMENTS, Pending, pipeline, require_answer, send, this_connection

M = TypeVar("M", bound=Model)
_NO_KEYS: Mapping[str, Any] = MappingProxyType({})


def insert_rows(*rows: Model) -> None:
    """Insert rows of one model in one statement and set their keys. Sends no signals."""
    send_rows(*rows).get()


def send_rows(*rows: Model) -> Pending[None]:
    """Insert rows, in an open pipeline if any; `get` sets their keys."""
    model, is_numbered = type(rows[0]), rows[0].pk is None
    keys = send_columns(model, [vars(row) for row in rows], is_numbered)

    def take_keys() -> None:
        new_keys = keys.get() if is_numbered else [row.pk for row in rows]
        for row, key in zip(rows, new_keys, strict=True):
            _mark_saved(row, key)

    return Pending(take_keys)


def _mark_saved(row: Model, key: object) -> None:
    row.pk = key
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def send_columns(
    model: type[Model],
    rows: Sequence[Mapping[str, Any]],
    is_numbered: bool = True,
    keys: Mapping[str, CompiledSelect[Any]] = _NO_KEYS,
) -> Pending[list[Any]]:
    """Insert rows given as columns; the answer is their keys.

    A column in `keys` is set to the key that its query finds; the row holds the query's parameters.
    So rows can be sent together with those that they refer to.
    """
    database = this_connection()
    queries = {name: query.for_database(database) for name, query in keys.items()}
    places = tuple((name, f"({query.sql})") for name, query in queries.items())
    sql, columns = _insert(model, is_numbered, len(rows), places)
    values: list[Any] = []
    for row in rows:
        values += _values(row, columns, database.vendor)
        for name, query in queries.items():
            values += fill_params(query.places, row[name], database.vendor)
    done = send(database, sql, values)
    return Pending(lambda: [key for (key,) in require_answer(done).fetchall()])


def insert_new(row: Model) -> bool:
    """Insert a numbered row unless an equal one exists. Return False if one does.

    Rows are equal if any unique column is: naming one column would let concurrent inserts fail at
    another. Waits for a transaction that has inserted the row; one's own goes on either way.
    """
    database = this_connection()
    sql, columns = _insert(type(row), True, 1, unless=" ON CONFLICT DO NOTHING")
    with pipeline():  # together with a BEGIN
        done = send(database, sql, _values(vars(row), columns, database.vendor))
    keys = require_answer(done).fetchall()
    for (key,) in keys:
        _mark_saved(row, key)
    return bool(keys)


def send_missing(rows: Sequence[Model]) -> None:
    """Insert numbered rows of one model, in an open pipeline if any, but for those that exist."""
    database = this_connection()
    sql, columns = _insert(type(rows[0]), True, len(rows), unless=" ON CONFLICT DO NOTHING")
    given = [value for row in rows for value in _values(vars(row), columns, database.vendor)]
    send(database, sql, given)


def update_row(row: Model, *names: str) -> None:
    """Update the columns `names` of a row, by default all."""
    database = this_connection()
    sql, columns = _update(type(row), names)
    send(database, sql, _values(vars(row), columns, database.vendor))


def new_row(model: type[M], /, **columns: object) -> M:
    """Return a new row as `model(**columns)` does, without its signals.

    Columns are named by attribute, `run_id`, or by the row that they refer to: `run`.
    """
    row = model.__new__(model)
    constant, made, references = _defaults(model)
    vars(row).update(constant)
    for name, make in made:
        if name not in columns:
            columns[name] = make()
    row._state = ModelState()
    for name in references.keys() & columns.keys():
        related: Any = columns.pop(name)
        columns[references[name]] = related and related.pk
        attach(row, name, related)
    vars(row).update(columns)
    return row


class _Column(NamedTuple):
    """A column to write, and the attribute with its value."""

    name: str
    is_json: bool


Columns: TypeAlias = tuple[_Column, ...]


def _columns(fields: "Iterable[Field[Any, Any]]") -> Columns:
    return tuple(_Column(field.attname, isinstance(field, JSONField)) for field in fields)


class _Defaults(NamedTuple):
    """The values of a new row's columns: constants, and functions called for each row."""

    constant: dict[str, object]
    made: tuple[tuple[str, Callable[[], object]], ...]
    references: dict[str, str]  # to columns, from names of what they refer to


@cache
def _defaults(model: type[Model]) -> _Defaults:
    fields = model._meta.concrete_fields
    made = [field for field in fields if callable(field.default)]
    constant = {f.attname: f.get_default() for f in fields if f not in made}
    references = {field.name: field.attname for field in fields if field.is_relation}
    return _Defaults(constant, tuple((f.attname, f.get_default) for f in made), references)


@lru_cache(STATEMENTS)
def _insert(
    model: type[Model],
    is_numbered: bool,
    count: int,
    keys: tuple[tuple[str, str], ...] = (),
    unless: str = "",
) -> tuple[str, Columns]:
    """Return an INSERT of `count` rows, and their columns; it returns keys if numbered.

    Columns in `keys` come after the others, each with its query.
    """
    fields = [f for f in model._meta.concrete_fields if not (is_numbered and f.primary_key)]
    queries = dict(keys)
    plain = [field for field in fields if field.attname not in queries]
    by_query = [field for name in queries for field in fields if field.attname == name]
    names = ", ".join(_quote(field) for field in (*plain, *by_query))
    start = f"INSERT INTO {connection.ops.quote_name(model._meta.db_table)} ({names}) VALUES"
    row = ", ".join((*["%s"] * len(plain), *queries.values()))
    places = ", ".join([f"({row})"] * count)
    end = f" RETURNING {_quote(model._meta.pk)}" if is_numbered else ""
    return f"{start} {places}{unless}{end}", _columns(plain)


@cache
def _update(model: type[Model], names: tuple[str, ...]) -> tuple[str, Columns]:
    """Return an UPDATE of one row, and its columns followed by the key."""
    key = model._meta.pk
    changed = [f for f in model._meta.concrete_fields if not names or f.name in names]
    fields = tuple(field for field in changed if field is not key)
    places = ", ".join(f"{_quote(field)} = %s" for field in fields)
    table = connection.ops.quote_name(model._meta.db_table)
    sql = f"UPDATE {table} SET {places} WHERE {_quote(key)} = %s"  # noqa: S608 - our own names
    return sql, _columns((*fields, key))


def _quote(field: "Field[Any, Any]") -> str:
    return str(connection.ops.quote_name(str(field.column)))


def _values(row: Mapping[str, Any], columns: Columns, vendor: str) -> list[Any]:
    return [
        value
        if type(value := row[name]) in AS_THEY_ARE and not is_json
        else to_driver(value, vendor, is_json=is_json)
        for name, is_json in columns
    ]
