"""Facts and limits as JSON and back, by the types that a desk declares for them."""

from __future__ import annotations

import json
from dataclasses import MISSING, field, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from agents.core.limits import LimitField
from agents.core.requests import Json
from agents.sdk.arguments import STRICT

T = TypeVar("T")


class BadValue(ValueError):
    """A stored value does not have the type that the desk declares. The message says where."""


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        kind.__pydantic_config__ = STRICT  # so the library wants it of a plain dataclass
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def write(value: Any) -> Json:
    """Return a dataclass of a desk as JSON."""
    return _adapter(type(value)).dump_python(value, mode="json")


def read_stored(kind: type[T], stored: Json) -> T:
    """Read what `write` wrote, with defaults for newer fields. Raises BadValue."""
    try:
        value: T = _adapter(kind).validate_json(json.dumps(stored, allow_nan=False))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadValue(f"{place or kind.__name__}: {first['msg']}") from None
    except (TypeError, ValueError) as error:
        raise BadValue(f"{kind.__name__}: {error}") from None
    return value


def limit(
    default: Any,
    label: str,
    help: str = "",  # noqa: A002 - as a form calls it
    *,
    hidden: bool = False,
) -> Any:
    """Declare a limit of a desk: its default, and its label and help for admins.

    A `hidden` one is on no page and in no policy that the desk begins with.
    """
    return field(default=default, metadata={"label": label, "help": help, "hidden": hidden})


def limit_fields(kind: type[Any]) -> list[LimitField]:
    """Return the limits that a desk shows. Raises TypeError for one without a default."""
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__}: put @dataclass(frozen=True) above it")
    bare = [one.name for one in fields(kind) if one.default is MISSING]
    if bare:
        raise TypeError(f"{kind.__name__}: {bare[0]} needs a default: limit(…, label, help)")
    try:
        properties = _adapter(kind).json_schema(mode="serialization")["properties"]
        defaults = json.loads(json.dumps(write(kind())))
        known, given = vars(read_stored(kind, defaults)), vars(kind())
    except (BadValue, PydanticUserError, PydanticSerializationError) as error:
        raise TypeError(f"{kind.__name__}: {str(error).splitlines()[0]}") from None
    for name, value in given.items():
        if (type(value), value) != (type(known[name]), known[name]):
            wanted = type(known[name]).__name__
            raise TypeError(f"{kind.__name__}: the default of {name}, {value!r}, is no {wanted}")
    hints = get_type_hints(kind)
    return [
        LimitField(
            name=one.name,
            label=one.metadata.get("label", one.name),
            help=one.metadata.get("help", ""),
            unit=str(getattr(one.default, "unit", getattr(hints[one.name], "unit", ""))),
            default=defaults[one.name],
            schema=properties[one.name],
        )
        for one in fields(kind)
        if not one.metadata.get("hidden")
    ]
