"""What strict structured output demands of a schema, put on and taken off again.

Its root is an object and never a choice, so a choice is put into one. Nothing may be left out, so
null stands for what is. Nobody else knows of either: what is recorded is what was meant.
"""

from __future__ import annotations

import json
from contextlib import suppress

from agents.core.requests import Json
from agents.core.schemas import exact_object
from agents.core.strict_json import BadJson, parse

ENVELOPE = "reply"


def envelop(schema: Json) -> Json:
    """Return a schema that strict output takes: its root is no choice."""
    return exact_object(**{ENVELOPE: schema}) if "anyOf" in schema else schema


def unpack(text: str) -> str:
    """Return what is in the envelope, without what is null; any other text stays as it is."""
    with suppress(BadJson):
        said = parse(text)
        inside = said[ENVELOPE] if isinstance(said, dict) and set(said) == {ENVELOPE} else said
        kept = _without_nulls(inside)
        if kept != said:
            return json.dumps(kept, ensure_ascii=False)
    return text


def _without_nulls(value: Json) -> Json:
    """Return a value without the properties that are null."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value
