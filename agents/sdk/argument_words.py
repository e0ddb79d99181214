"""Arguments of calls in words: from stored values, never by a desk's types.

Stored values stay readable after a desk has changed or was removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import TypeAlias

from agents.core.requests import Json
from agents.core.units import with_unit
from agents.sdk.adjustments import label_of
from agents.sdk.values import Money, show

# The names of the values of a call's arguments: by argument, then by value.
Called: TypeAlias = Mapping[str, Mapping[str, str]]
_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def with_name(text: str, name: str) -> str:
    """Return a key with its name: Papier Hansen (P-102)."""
    return f"{name} ({text})" if name else text


def in_words(value: Json, schema: Mapping[str, Json] | None = None) -> str:
    """Return a stored value in words."""
    known = schema or {}
    if isinstance(value, dict):
        return _object(value, known)
    if isinstance(value, list):
        return ", ".join(in_words(item, known.get("items")) for item in value) or "none"
    if known.get("unit") and isinstance(value, int):
        return with_unit(value, known["unit"])
    if isinstance(value, str) and _is_day(known) and _ISO_DAY.fullmatch(value):
        try:
            return show(date.fromisoformat(value))
        except ValueError:
            return value
    return show(value)


def _is_day(schema: Mapping[str, Json]) -> bool:
    return any(one.get("format") == "date" for one in (schema, *schema.get("anyOf", ())))


def _object(value: Mapping[str, Json], schema: Mapping[str, Json]) -> str:
    if money := money_of(value):
        return str(money)
    properties = schema.get("properties", {})
    parts = (f"{label_of(k)}: {in_words(v, properties.get(k))}" for k, v in value.items())
    return "; ".join(parts) or "none"


def money_of(value: Json) -> Money | None:
    """Return a stored amount and its currency, or None for anything else."""
    if not isinstance(value, dict) or set(value) != {"amount", "currency"}:
        return None
    try:
        return Money.of(str(value["amount"]), str(value["currency"]))
    except (ValueError, ArithmeticError):
        return None
