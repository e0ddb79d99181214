"""Read untrusted JSON without surprises.

Beyond invalid syntax, it refuses too large texts, too deep nesting, a duplicate key in an object,
NaN and Infinity, numbers that cannot be stored exactly, and half a surrogate pair.
"""

from __future__ import annotations

import json

from agents.core.requests import Json

MAX_CHARS = 256 * 1024
MAX_DEPTH = 20
MAX_DIGITS = 1000  # of one integer


class BadJson(ValueError):
    """The text is not acceptable JSON. The message says why."""


def parse(text: str, *, keep_non_finite: bool = False) -> Json:
    """Return the value of `text`. Raises BadJson.

    `keep_non_finite` lets NaN, Infinity and 1e400 through as floats, for a caller that can then
    name the argument.
    """
    if len(text) > MAX_CHARS:
        raise BadJson(f"longer than {MAX_CHARS} characters")
    if _depth(text) > MAX_DEPTH:
        raise BadJson(f"nested deeper than {MAX_DEPTH}")
    try:
        value = _DECODER.decode(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadJson(str(error)) from None
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=keep_non_finite).encode()
    except UnicodeEncodeError:
        raise BadJson("holds half a surrogate pair") from None
    except ValueError:
        raise BadJson("holds a number that is not finite") from None
    return value


def is_storable(value: object) -> bool:
    """Tell whether a value can be stored: as JSON within the bounds above, without NUL."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        parse(text)
    except (TypeError, ValueError, RecursionError):
        return False
    # PostgreSQL stores no NUL; text that holds it as an escape is refused too.
    return "\\u0000" not in text


def _depth(text: str) -> int:
    """Return the depth of brackets outside strings, or an upper bound if that is acceptable."""
    brackets = text.count("[") + text.count("{")
    if brackets <= MAX_DEPTH:
        return brackets
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadJson("a key stands twice in one object")
    return found


def _bounded_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise BadJson(f"an integer of more than {MAX_DIGITS} digits")
    return int(digits)


class Rounded(float):
    """A float of so many digits that another number may have been written: 5001.0000000000001."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_bounded_int,
    parse_float=lambda text: (Rounded if len(text) > 17 else float)(text),
)
