"""Write and read the JSON of rows, whose form does not matter, as fast as it can be had.

A run writes and reads some sixty values. What is hashed has the form of `core.digest`.
"""

from __future__ import annotations

import json

from pydantic_core import from_json, to_json

from agents.core.requests import Json


def encode(value: Json) -> str:
    """Return `value` as JSON in some form. Raises TypeError, ValueError."""
    try:
        # NaN is written as such: a database refuses it, where null would be taken for a value.
        return to_json(value, inf_nan_mode="constants").decode()
    except ValueError:  # half a surrogate pair
        return json.dumps(value)


def decode(text: str) -> Json:
    """Return the value that JSON in any form stands for. Raises ValueError."""
    try:
        return from_json(text, cache_strings="keys")  # no value is kept in memory
    except (TypeError, ValueError):  # half a surrogate pair, or nested deeper than 200
        return json.loads(text)
