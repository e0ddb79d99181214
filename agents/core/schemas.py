"""Exact JSON schemas: every property is required, and no others are allowed.

They use only what strict structured output accepts: bounds of numbers and lengths of lists, but
nothing for texts. Our own parsers check the rest, and everything else again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from agents.core.money import MAX_MINOR
from agents.core.old_names import AMOUNT
from agents.core.requests import Json
from agents.core.strict_json import BadJson, parse

TEXT: Json = {"type": "string"}
TRUTH: Json = {"type": "boolean"}
_KINDS: Mapping[str, Json] = {  # of arguments, see core.actions
    "int": {"type": "integer", "minimum": -MAX_MINOR, "maximum": MAX_MINOR},
    AMOUNT: {"type": "number", "minimum": 0.01, "maximum": MAX_MINOR // 100},
    "str": TEXT,
}


def word(*words: str) -> Json:
    """Return the schema of a choice among words."""
    return {"type": "string", "enum": list(words)}


def exact_object(**properties: Json) -> Json:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def one_of(branches: Iterable[Json]) -> Json:
    """Return the schema of a choice among schemas."""
    found = list(branches)
    return found[0] if len(found) == 1 else {"anyOf": found}


def arguments(spec: Mapping[str, str], *, only: Mapping[str, int] | None = None) -> Json:
    """Return the schema of a tool's arguments; null stands for an omitted one.

    `only` are arguments with a single allowed value.
    """
    properties = {name: _argument(kind) for name, kind in spec.items()}
    for name in spec.keys() & (only or {}).keys():
        properties[name] = {"type": "integer", "enum": [(only or {})[name]]}
    return exact_object(**properties)


def _argument(kind: str) -> Json:
    # An unknown kind passes here as text: reading the proposal refuses its value.
    found = _KINDS.get(kind.removesuffix("?"), TEXT)
    return {**found, "type": [found["type"], "null"]} if kind.endswith("?") else found


def fit(value: Json, schema: Json, *, is_untyped: bool = False) -> Json:
    """Return a value with integers where its schema has no other numbers, and 5001.0 was written.

    In an untyped value all is text: what the schema does not want as a text is read as JSON.
    """
    choices = schema.get("anyOf", [schema])
    parts = {key: part for one in choices for key, part in one.items()}
    kinds = str([one.get("type") for one in choices])
    if is_untyped and isinstance(value, str) and "string" not in kinds:
        with suppress(BadJson):
            return fit(parse(value), schema)
    if isinstance(value, dict):
        known = parts.get("properties", {})
        return {n: fit(part, known.get(n, {}), is_untyped=is_untyped) for n, part in value.items()}
    if isinstance(value, list):
        return [fit(part, parts.get("items", {})) for part in value]
    # A Rounded number is no whole one, nor what a reader without that type may have rounded.
    is_whole = type(value) is float and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole and "integer" in kinds and "number" not in kinds else value
