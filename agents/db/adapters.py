"""Convert column values for the driver and back.

Django inspects each value of each row through several functions. Here the conversion is chosen
once per column or type, for the values in the hot path's rows; any other is left to Django.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, TypeAlias
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, DateTimeField, ForeignKey, JSONField, UUIDField
from django.db.models.expressions import Col
from django.utils.duration import duration_microseconds
from psycopg.types.json import Jsonb

from agents.core.row_json import decode, encode

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
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC)
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
    found: list[tuple[int, Reading]] = []
    for place, (converters, column) in compiler.get_converters(columns).items():
        target = column.target if isinstance(column, Col) else None
        if isinstance(target, ForeignKey):
            target = target.target_field
        if type(target) is JSONField and target.decoder is None:
            found.append((place, _from_json))
        elif isinstance(target, DateTimeField) and connection.vendor == "sqlite":
            found.append((place, _in_utc))
        elif isinstance(target, BooleanField) and connection.vendor == "sqlite":
            found.append((place, _truth))
        elif isinstance(target, UUIDField) and connection.vendor == "sqlite":
            found.append((place, _key))
        else:
            found.append((place, partial(_by_django, tuple(converters), column)))
    return found


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
