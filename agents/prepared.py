"""Queries of the hot path, compiled once.

Django compiles a query each time it is made, which costs several times what a small database
takes to answer it. A prepared query is written as any other, with Given where a value is to
come, and afterwards is only its SQL. Everything that is not asked many times a run stays a
plain query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, JSONField, Model, QuerySet, Value
from django.db.models.base import ModelState
from django.db.models.sql import UpdateQuery
from django.utils.duration import duration_microseconds

from agents.driver import answered, send

# What every driver takes as it is, for any column but JSON.
AS_THEY_ARE = frozenset({str, int, bool, type(None)})

M = TypeVar("M", bound=Model)


class Given(Value):
    """A value that is named when the query is made. JSON needs its field; not after `__in`."""

    def __init__(self, name: str, field: Any = None) -> None:
        super().__init__(name, field)
        self.column = field

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", (self,)


@dataclass(frozen=True)
class _Query:
    """What is left of a query once it is compiled."""

    sql: str
    places: Sequence[Any]
    model: type[Any]
    names: list[str]
    compiler: Any
    converters: Any

    def rows(self, done: Any) -> Iterable[Sequence[Any]]:
        """Return what the database answered."""
        rows: Iterable[Sequence[Any]] = answered(done).fetchall()
        return self.compiler.apply_converters(rows, self.converters) if self.converters else rows


class Rows(Generic[M]):
    """A query for rows of one model."""

    def __init__(self, build: Callable[[], QuerySet[M]]) -> None:
        self._build = build
        self._compiled: dict[str, _Query] = {}

    def all(self, **given: object) -> list[M]:
        """Return the rows in their order."""
        return self.sent(**given)()

    def sent(self, **given: object) -> Callable[[], list[M]]:
        """Send the query, maybe together with others; call what comes back for the rows."""
        found, done = self._asked(given)

        return lambda: [_as_model(found.model, found.names, row) for row in found.rows(done)]

    def get(self, **given: object) -> M:
        """Return the only row. Raises the model's DoesNotExist where there is none."""
        found = self.all(**given)
        if not found:
            missing: Any = self._build().model
            raise missing.DoesNotExist
        [row] = found
        return row

    def tuples(self, **given: object) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of their columns, the key first."""
        return self.sent_tuples(**given)()

    def sent_tuples(self, **given: object) -> Callable[[], list[tuple[Any, ...]]]:
        """Send the query as `sent` does, for rows as `tuples` returns them."""
        found, done = self._asked(given)
        return lambda: [tuple(row) for row in found.rows(done)]

    def first(self, **given: object) -> M | None:
        """Return the first row, or None."""
        return next(iter(self.all(**given)), None)

    def _asked(self, given: dict[str, object]) -> tuple[_Query, Any]:
        """Return the compiled query, and the cursor that it was sent by."""
        database = connections[DEFAULT_DB_ALIAS]
        found = self._compiled.get(database.vendor) or self._compile()
        return found, send(database, found.sql, _filled(found.places, given, database))

    def _compile(self) -> _Query:
        queryset = self._build()
        compiler = queryset.query.get_compiler(connection=connection)
        sql, places = compiler.as_sql()
        columns = [column for column, _, _ in compiler.select]
        names = [column.target.attname for column in columns]
        converters = compiler.get_converters(columns)
        found = _Query(sql, tuple(places), queryset.model, names, compiler, converters)
        self._compiled[connection.vendor] = found
        return found


class Update:
    """An UPDATE of the rows that a query finds."""

    def __init__(self, build: Callable[[], QuerySet[Any]], **columns: object) -> None:
        self._build, self._columns = build, columns
        self._compiled: dict[str, tuple[str, Sequence[Any]]] = {}

    def __call__(self, **given: object) -> int:
        """Change the rows. Return how many there were."""
        return self.sent(**given)()

    def sent(self, **given: object) -> Callable[[], int]:
        """Send the change, maybe together with others; call what comes back for their number."""
        database = connections[DEFAULT_DB_ALIAS]
        sql, places = self._compiled.get(database.vendor) or self._compile()
        done = send(database, sql, _filled(places, given, database))
        return lambda: int(answered(done).rowcount)

    def _compile(self) -> tuple[str, Sequence[Any]]:
        query: Any = self._build().query.chain(UpdateQuery)
        query.add_update_values(self._columns)
        sql, places = query.get_compiler(connection=connection).as_sql()
        self._compiled[connection.vendor] = found = sql, tuple(places)
        return found


def _as_model(model: type[M], names: Sequence[str], row: Sequence[Any]) -> M:
    """Return a row as Django's `from_db` does, deferred columns left out, without its signals."""
    found = model.__new__(model)
    found.__dict__.update(zip(names, row, strict=True))
    found._state = ModelState()
    found._state.adding, found._state.db = False, DEFAULT_DB_ALIAS
    return found


def insert(*rows: Model) -> None:
    """Insert rows of one model in one statement, and give them their keys. Sends no signals."""
    inserted(*rows)()


def inserted(*rows: Model) -> Callable[[], None]:
    """Send the rows, maybe together with others; call what comes back to give them their keys."""
    model, is_numbered = type(rows[0]), rows[0].pk is None
    keys = inserted_columns(model, [vars(row) for row in rows], is_numbered)

    def keyed() -> None:
        found = keys() if is_numbered else [row.pk for row in rows]
        for row, key in zip(rows, found, strict=True):
            _is_kept(row, key)

    return keyed


def _is_kept(row: Model, key: object) -> None:
    """Note on a row that it is in the database, under this key."""
    row.pk = key
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def inserted_columns(
    model: type[Model], rows: Sequence[Mapping[str, object]], is_numbered: bool = True
) -> Callable[[], list[Any]]:
    """Send rows that are no models yet, by their columns; call what comes back for their keys."""
    database = connections[DEFAULT_DB_ALIAS]
    start, place, end, fields = _insert(model, is_numbered)
    values = [_adapted(row[field.attname], field, database) for row in rows for field in fields]
    done = send(database, f"{start} {', '.join([place] * len(rows))}{end}", values)
    return lambda: [key for (key,) in answered(done).fetchall()]


def insert_new(row: Model) -> bool:
    """Insert a numbered row, unless one like it is there. Return False if so.

    It is there if any unique column has the value: whoever names one of several still fails at
    another, where two insert the same row at once. Waits for a transaction that has inserted it;
    the own one goes on either way.
    """
    database = connections[DEFAULT_DB_ALIAS]
    start, place, end, fields = _insert(type(row), True)
    sql = f"{start} {place} ON CONFLICT DO NOTHING{end}"
    keys = answered(send(database, sql, _values(row, fields, database))).fetchall()
    for (key,) in keys:
        _is_kept(row, key)
    return bool(keys)


def update(row: Model, *names: str) -> None:
    """Write the columns `names` of a row, or all of them where none is named."""
    database = connections[DEFAULT_DB_ALIAS]
    sql, fields = _update(type(row), names)
    send(database, sql, _values(row, fields, database))


Fields: TypeAlias = "tuple[Field[Any, Any], ...]"


@cache
def _insert(model: type[Model], is_numbered: bool) -> tuple[str, str, str, Fields]:
    """Return how an INSERT begins, the place of one row in it, its end, and its columns."""
    fields = tuple(f for f in model._meta.concrete_fields if not (is_numbered and f.primary_key))
    names = ", ".join(_quoted(field) for field in fields)
    start = f"INSERT INTO {connection.ops.quote_name(model._meta.db_table)} ({names}) VALUES"
    end = f" RETURNING {_quoted(model._meta.pk)}" if is_numbered else ""
    return start, f"({', '.join(['%s'] * len(fields))})", end, fields


@cache
def _update(model: type[Model], names: tuple[str, ...]) -> tuple[str, Fields]:
    """Return an UPDATE of one row, and its columns with the key last."""
    key = model._meta.pk
    changed = [f for f in model._meta.concrete_fields if not names or f.name in names]
    fields = tuple(field for field in changed if field is not key)
    places = ", ".join(f"{_quoted(field)} = %s" for field in fields)
    table = connection.ops.quote_name(model._meta.db_table)
    sql = f"UPDATE {table} SET {places} WHERE {_quoted(key)} = %s"  # noqa: S608 - our own names
    return sql, (*fields, key)


def _quoted(field: Field[Any, Any]) -> str:
    return str(connection.ops.quote_name(str(field.column)))


def _values(row: Model, fields: Fields, database: BaseDatabaseWrapper) -> list[Any]:
    """Return what the driver takes for these columns of a row."""
    return [_adapted(getattr(row, field.attname), field, database) for field in fields]


def _filled(
    places: Sequence[Any], given: dict[str, object], database: BaseDatabaseWrapper
) -> list[Any]:
    """Return the parameters of a query, with what is given in its places."""
    return [
        at if not isinstance(at, Given) else _adapted(given[at.value], at.column, database)
        for at in places
    ]


def _adapted(value: object, field: Field[Any, Any] | None, database: BaseDatabaseWrapper) -> object:
    """Return a value as the driver takes it."""
    if isinstance(field, JSONField):
        return None if value is None else database.ops.adapt_json_value(value, field.encoder)
    if type(value) in AS_THEY_ARE:
        return value
    if isinstance(value, datetime):
        return database.ops.adapt_datetimefield_value(value)
    if isinstance(value, UUID) and not database.features.has_native_uuid_field:
        return value.hex
    if isinstance(value, timedelta) and not database.features.has_native_duration_field:
        return duration_microseconds(value)
    if isinstance(value, str):
        return str(value)  # a state's name
    return value
