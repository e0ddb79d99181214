"""Queries of the hot path, compiled once, and their values as the driver takes and gives them.

Django compiles a query each time it is made, which takes several times as long as a small database
needs to answer it. A compiled query is written like any other, with a Param for each value, and is
then reused as SQL. Queries that a run does not repeat many times stay plain ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.base import ModelState
from django.db.models.expressions import Col
from django.db.models.sql import UpdateQuery
from django.utils.duration import duration_microseconds
from psycopg.types.json import Jsonb

from agents.core.json_forms import decode, encode
from agents.db.driver import STATEMENTS, Pending, pipeline, require_answer, send, this_connection

M = TypeVar("M", bound=models.Model)


class Param(models.Value):
    """A value that is given when the query is made. JSON needs its field; `__in` needs Params."""

    def __init__(self, name: str, field: Any = None) -> None:
        super().__init__(name, field)
        self.is_json = isinstance(field, models.JSONField)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", (self,)


class Params(models.Value):
    """The values of an `__in`. Their number is part of the SQL: a query is kept for each."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name)
        self.count = count

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        if not self.count:
            raise EmptyResultSet
        marks = ", ".join(["%s"] * self.count)
        return f"({marks})", tuple(Param(f"{self.value}.{n}") for n in range(self.count))


def spread(name: str, values: Sequence[object]) -> dict[str, object]:
    """Return what is given for Params of that name."""
    return {f"{name}.{n}": value for n, value in enumerate(values)}


class Related(NamedTuple):
    """A row of another model that `select_related` reads with each row, at these places."""

    model: type[Any]
    places: Sequence[int]
    keep: Callable[[Any, Any], None]  # in the row that it was read with
    keep_back: Callable[[Any, Any], None]  # that row in this one, where only one refers to it
    related: "Sequence[Related]"  # with it


@dataclass(frozen=True)
class Compiled:
    """A compiled query: its SQL and the places of its parameters."""

    sql: str
    places: Sequence[Any]
    model: type[Any]
    names: list[str]
    readings: "Sequence[tuple[int, Reading]]"
    related: Sequence[Related] = ()

    def rows(self, done: Any) -> Iterable[Sequence[Any]]:
        rows: list[tuple[Any, ...]] = require_answer(done).fetchall()
        return [self._read(row) for row in rows] if self.readings else rows

    def _read(self, row: tuple[Any, ...]) -> list[Any]:
        values = list(row)
        for place, read in self.readings:
            if values[place] is not None:
                values[place] = read(values[place])
        return values


class CompiledSelect(Generic[M]):
    """A query for rows of one model."""

    def __init__(self, build: Callable[[], models.QuerySet[M]]) -> None:
        self._build = build
        self._compiled: dict[str, Compiled] = {}

    def all(self, **given: object) -> list[M]:
        """Return the rows in order."""
        return self.fetch(**given).get()

    def fetch(self, **given: object) -> Pending[list[M]]:
        """Fetch the rows, in an open pipeline if any."""
        compiled, done = self._send(given)
        return Pending(lambda: [_with_related(compiled, row) for row in compiled.rows(done)])

    def get(self, **given: object) -> M:
        """Return the only row. Raises the model's DoesNotExist if there is none."""
        rows = self.all(**given)
        if not rows:
            missing: Any = self._build().model
            raise missing.DoesNotExist
        [row] = rows
        return row

    def tuples(self, **given: object) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of their columns, the key first."""
        return self.fetch_tuples(**given).get()

    def fetch_tuples(self, **given: object) -> Pending[list[tuple[Any, ...]]]:
        """Fetch the rows as in `tuples`, in an open pipeline if any."""
        compiled, done = self._send(given)
        return Pending(lambda: [tuple(row) for row in compiled.rows(done)])

    def first(self, **given: object) -> M | None:
        return next(iter(self.all(**given)), None)

    def _send(self, given: dict[str, object]) -> tuple[Compiled, Any]:
        """Send the query. Return it compiled, and its cursor."""
        database = this_connection()
        query = self.for_database(database)
        return query, send(database, query.sql, fill_params(query.places, given, database.vendor))

    def for_database(self, database: BaseDatabaseWrapper) -> Compiled:
        """Return the query as compiled for this kind of database."""
        return self._compiled.get(database.vendor) or self._compile()

    def _compile(self) -> Compiled:
        queryset = self._build()
        compiler = queryset.query.get_compiler(connection=connection)
        try:
            sql, places = compiler.as_sql()
        except EmptyResultSet:  # nothing is in a list without values
            sql, places = "SELECT 1 WHERE 1 = 0", ()
        columns = [column for column, _, _ in compiler.select]
        # A column has its annotated name, if any; one like a sum is no model's field.
        names = [
            alias or (column.target.attname if isinstance(column, Col) else "")
            for column, _, alias in compiler.select
        ]
        related = _related(compiler.klass_info or {})
        read = readings(columns, compiler)
        sql, given = _with_constants(sql, places)
        compiled = Compiled(sql, given, queryset.model, names, read, related)
        self._compiled[connection.vendor] = compiled
        return compiled


class CompiledUpdate:
    """An UPDATE of the rows that a query finds."""

    def __init__(
        self,
        build: Callable[[], models.QuerySet[Any]],
        returning: Sequence[str] = (),
        /,
        **columns: object,
    ) -> None:
        self._build, self._returning, self._columns = build, returning, columns
        self._compiled: dict[str, tuple[str, Sequence[Any]]] = {}

    def __call__(self, **given: object) -> int:
        """Update the rows. Return their number."""
        return self.send(**given).get()

    def send(self, **given: object) -> Pending[int]:
        """Send the update, in an open pipeline if any; the answer is the number of rows."""
        done = self._send(given)
        return Pending(lambda: int(require_answer(done).rowcount))

    def tuples(self, **given: object) -> list[tuple[Any, ...]]:
        """Update the rows. Return their columns in `returning`: numbers and texts."""
        return self.fetch_tuples(**given).get()

    def fetch_tuples(self, **given: object) -> Pending[list[tuple[Any, ...]]]:
        """Update the rows as in `tuples`, in an open pipeline if any."""
        done = self._send(given)
        return Pending(lambda: list(require_answer(done).fetchall()))

    def _send(self, given: dict[str, object]) -> Any:
        database = this_connection()
        sql, places = self._compiled.get(database.vendor) or self._compile()
        return send(database, sql, fill_params(places, given, database.vendor))

    def _compile(self) -> tuple[str, Sequence[Any]]:
        query: Any = self._build().query.chain(UpdateQuery)
        query.add_update_values(self._columns)
        sql, places = query.get_compiler(connection=connection).as_sql()
        if self._returning:
            names = ", ".join(map(connection.ops.quote_name, self._returning))
            sql = f"{sql} RETURNING {names}"
        self._compiled[connection.vendor] = compiled = _with_constants(sql, places)
        return compiled


def _with_constants(sql: str, places: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Write a query's own texts into it for SQLite. Return it with the places that are left.

    If a partial index asks for a state, SQLite plans a query whose state is a parameter again each
    time, as the next one may be another.
    """
    if connection.vendor != "sqlite":
        return sql, tuple(places)
    first, *others = sql.replace("%%", "\0").split("%s")
    parts, left = [first], []
    for place, after in zip(places, others, strict=True):
        if isinstance(place, str):
            parts += ["'", place.replace("'", "''").replace("%", "\0"), "'", after]
        else:
            parts += ["%s", after]
            left.append(place)
    return "".join(parts).replace("\0", "%%"), tuple(left)


def _related(of: Mapping[str, Any]) -> list[Related]:
    return [
        Related(
            one["model"],
            one["select_fields"],
            one["local_setter"],
            one["remote_setter"],
            _related(one),
        )
        for one in of.get("related_klass_infos", ())
    ]


def _with_related(compiled: Compiled, row: Sequence[Any]) -> Any:
    """Return a row together with those that were read with it."""
    if not compiled.related:
        return _as_model(compiled.model, compiled.names, row)
    own = compiled.related[0].places[0]
    made = _as_model(compiled.model, compiled.names[:own], row[:own])
    _add_related(made, compiled.related, compiled.names, row)
    return made


def _add_related(
    made: Any, related: Sequence[Related], names: Sequence[str], row: Sequence[Any]
) -> None:
    for model, places, keep, keep_back, further in related:
        part = slice(places[0], places[-1] + 1)
        if row[places[0]] is None:  # its key: of an outer join there may be no row
            keep(made, None)
            continue
        one = _as_model(model, names[part], row[part])
        keep(made, one)
        keep_back(one, made)
        _add_related(one, further, names, row)


def attach(row: models.Model, name: str, related: models.Model | None) -> None:
    """Link a row to the row that its column `name` refers to, as Django does after reading it.

    Assigning it would compare types, databases and keys; here all are known to fit.
    """
    row._state.fields_cache[name] = related


def _as_model(model: type[M], names: Sequence[str], row: Sequence[Any]) -> M:
    """Return a row as Django's `from_db` does, deferred columns left out, without its signals."""
    row_model = model.__new__(model)
    row_model.__dict__.update(zip(names, row, strict=True))
    row_model._state = ModelState()
    row_model._state.adding, row_model._state.db = False, DEFAULT_DB_ALIAS
    return row_model


def fill_params(places: Sequence[Any], given: Mapping[str, object], vendor: str) -> list[Any]:
    """Return the parameters of a query with the given values filled in."""
    return [
        at
        if type(at) is not Param
        else value
        if type(value := given[at.value]) in AS_THEY_ARE and not at.is_json
        else to_driver(value, vendor, is_json=at.is_json)
        for at in places
    ]


# Django inspects each value of each row through several functions. Here the conversion is chosen
# once per column or type, for the values in the hot path's rows; any other is left to Django.

Reading: TypeAlias = Callable[[Any], Any]

# Types that every driver takes unchanged, for any column except JSON.
AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def to_driver(value: Any, vendor: str, *, is_json: bool = False) -> Any:
    """Return a value as the driver takes it."""
    if is_json:
        if value is None:
            return None
        return Jsonb(value, encode) if vendor == "postgresql" else encode(value)
    of_type = type(value)
    if of_type in AS_THEY_ARE:
        return value
    if vendor == "sqlite" and of_type in _ON_SQLITE:
        return _ON_SQLITE[of_type](value)
    return str(value) if isinstance(value, str) else value  # a state's name


def _time(value: datetime) -> str:
    return _spell(value if value.tzinfo is UTC else value.astimezone(UTC))


@lru_cache(8)  # the rows of a transaction share one time
def _spell(value: datetime) -> str:
    return value.isoformat(" ")[: -len("+00:00")]


_ON_SQLITE: dict[type, Callable[[Any], Any]] = {
    datetime: _time,
    date: date.isoformat,
    timedelta: duration_microseconds,
    UUID: lambda value: value.hex,
}


def readings(columns: Sequence[Any], compiler: Any) -> list[tuple[int, Reading]]:
    """Return the conversions for reading a query's columns, by position, if any are needed.

    None is not converted.
    """
    readers: list[tuple[int, Reading]] = []
    for place, (converters, column) in compiler.get_converters(columns).items():
        target = column.target if isinstance(column, Col) else None
        if isinstance(target, models.ForeignKey):
            target = target.target_field
        if type(target) is models.JSONField and target.decoder is None:
            readers.append((place, _from_json))
        elif isinstance(target, models.DateTimeField) and connection.vendor == "sqlite":
            readers.append((place, _in_utc))
        elif isinstance(target, models.BooleanField) and connection.vendor == "sqlite":
            readers.append((place, _truth))
        elif isinstance(target, models.UUIDField) and connection.vendor == "sqlite":
            readers.append((place, _key))
        else:
            readers.append((place, partial(_by_django, tuple(converters), column)))
    return readers


def _from_json(value: str | None) -> Any:
    return None if value is None else decode(value)


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC)


def _truth(value: Any) -> Any:
    return bool(value) if value in (0, 1) else value


@lru_cache(4096)
def _key(text: str) -> UUID:
    """Return the UUID of a text: each of a run's rows names the run."""
    return UUID(text)


def _by_django(converters: Sequence[Callable[..., Any]], column: Any, value: Any) -> Any:
    for convert in converters:
        value = convert(value, column, connection)
    return value


# Write rows of the hot path by column: one statement, without Django's signals.


_NO_KEYS: Mapping[str, Any] = MappingProxyType({})


def send_rows(*rows: models.Model) -> Pending[None]:
    """Insert rows of one model, in an open pipeline if any; `get` sets their keys. No signals."""
    model, is_numbered = type(rows[0]), rows[0].pk is None
    keys = send_columns(model, [vars(row) for row in rows], is_numbered, wants_keys=is_numbered)

    def take_keys() -> None:
        new_keys = keys.get() if is_numbered else [row.pk for row in rows]
        for row, key in zip(rows, new_keys, strict=True):
            _mark_saved(row, key)

    return Pending(take_keys)


def _mark_saved(row: models.Model, key: object) -> None:
    row.pk = key
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def send_columns(
    model: type[models.Model],
    rows: Sequence[Mapping[str, Any]],
    is_numbered: bool = True,
    keys: Mapping[str, CompiledSelect[Any]] = _NO_KEYS,
    wants_keys: bool = False,
) -> Pending[list[Any]]:
    """Insert rows given as columns. Their keys are answered if wanted: SQLite keeps a table for it.

    A column in `keys` is set to the key that its query finds; the row holds the query's parameters.
    So rows can be sent together with those that they refer to.
    """
    database = this_connection()
    queries = {name: query.for_database(database) for name, query in keys.items()}
    places = tuple((name, f"({query.sql})") for name, query in queries.items())
    sql, columns = _insert(model, is_numbered, len(rows), places, wants_keys=wants_keys)
    values: list[Any] = []
    for row in rows:
        values += _values(row, columns, database.vendor)
        for name, query in queries.items():
            values += fill_params(query.places, row[name], database.vendor)
    done = send(database, sql, values)
    return Pending(lambda: [key for (key,) in require_answer(done).fetchall()])


def insert_new(row: models.Model) -> bool:
    """Insert a numbered row unless an equal one exists. Return False if one does.

    Rows are equal if any unique column is: naming one column would let concurrent inserts fail at
    another. Waits for a transaction that has inserted the row; one's own goes on either way.
    """
    database = this_connection()
    sql, columns = _insert(type(row), True, 1, unless=" ON CONFLICT DO NOTHING", wants_keys=True)
    with pipeline():  # together with a BEGIN
        done = send(database, sql, _values(vars(row), columns, database.vendor))
    keys = require_answer(done).fetchall()
    for (key,) in keys:
        _mark_saved(row, key)
    return bool(keys)


def send_missing(rows: Sequence[models.Model]) -> None:
    """Insert numbered rows of one model, in an open pipeline if any, but for those that exist."""
    database = this_connection()
    sql, columns = _insert(type(rows[0]), True, len(rows), unless=" ON CONFLICT DO NOTHING")
    given = [value for row in rows for value in _values(vars(row), columns, database.vendor)]
    send(database, sql, given)


def update_row(row: models.Model, *names: str) -> None:
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


def _columns(fields: "Iterable[models.Field[Any, Any]]") -> Columns:
    return tuple(_Column(field.attname, isinstance(field, models.JSONField)) for field in fields)


class _Defaults(NamedTuple):
    """The values of a new row's columns: constants, and functions called for each row."""

    constant: dict[str, object]
    made: tuple[tuple[str, Callable[[], object]], ...]
    references: dict[str, str]  # to columns, from names of what they refer to


@cache
def _defaults(model: type[models.Model]) -> _Defaults:
    fields = model._meta.concrete_fields
    made = [field for field in fields if field.has_default() and callable(field.default)]
    constant = {f.attname: f.get_default() for f in fields if f not in made}
    references = {field.name: field.attname for field in fields if field.is_relation}
    return _Defaults(constant, tuple((f.attname, f.get_default) for f in made), references)


@lru_cache(STATEMENTS)
def _insert(
    model: type[models.Model],
    is_numbered: bool,
    count: int,
    keys: tuple[tuple[str, str], ...] = (),
    unless: str = "",
    wants_keys: bool = False,
) -> tuple[str, Columns]:
    """Return an INSERT of `count` rows, and their columns; it returns keys if they are wanted.

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
    end = f" RETURNING {_quote(model._meta.pk)}" if wants_keys else ""
    return f"{start} {places}{unless}{end}", _columns(plain)


@cache
def _update(model: type[models.Model], names: tuple[str, ...]) -> tuple[str, Columns]:
    """Return an UPDATE of one row, and its columns followed by the key."""
    key = model._meta.pk
    changed = [f for f in model._meta.concrete_fields if not names or f.name in names]
    fields = tuple(field for field in changed if field is not key)
    places = ", ".join(f"{_quote(field)} = %s" for field in fields)
    table = connection.ops.quote_name(model._meta.db_table)
    sql = f"UPDATE {table} SET {places} WHERE {_quote(key)} = %s"  # noqa: S608 - our own names
    return sql, _columns((*fields, key))


def _quote(field: "models.Field[Any, Any]") -> str:
    return str(connection.ops.quote_name(str(field.column)))


def _values(row: Mapping[str, Any], columns: Columns, vendor: str) -> list[Any]:
    return [
        value
        if type(value := row[name]) in AS_THEY_ARE and not is_json
        else to_driver(value, vendor, is_json=is_json)
        for name, is_json in columns
    ]
