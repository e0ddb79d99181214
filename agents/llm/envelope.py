"""Adapt schemas to strict structured output, and its replies back.

Its root must be an object, so a choice is wrapped in one. No property may be omitted, so null
stands for an omission. Both are undone before the reply is recorded.
"""

from __future__ import annotations

import json
from contextlib import suppress

from agents.core.requests import Json
from agents.core.schemas import exact_object
from agents.core.strict_json import BadJson, parse

ENVELOPE = "reply"


def envelop(schema: Json) -> Json:
    """Return a schema for strict output, with a choice at the root wrapped."""
    return exact_object(**{ENVELOPE: schema}) if "anyOf" in schema else schema


def unpack(text: str) -> str:
    """Return the content of an envelope without nulls; any other text stays unchanged."""
    with suppress(BadJson):
        said = parse(text)
        inside = said[ENVELOPE] if isinstance(said, dict) and set(said) == {ENVELOPE} else said
        kept = _without_nulls(inside)
        if kept != said:
            return json.dumps(kept, ensure_ascii=False)
    return text


def _without_nulls(value: Json, *, below: bool = True) -> Json:
    """Return a value without the properties that are null.

    An argument may be left out, but a field of it may not: below an argument null is a value.
    """
    if isinstance(value, dict):
        given = ((name, part) for name, part in value.items() if part is not None)
        return {n: _without_nulls(part, below=n != "args") if below else part for n, part in given}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value
