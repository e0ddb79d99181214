"""JSON: read without surprises, described exactly, spelt in one way for a hash, kept fast.

Beyond invalid syntax, `parse` refuses too large texts, too deep nesting, a duplicate key in an
object, NaN and Infinity, numbers that cannot be stored exactly, and half a surrogate pair.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from pydantic_core import from_json, to_json

from agents.core.compat_0_2 import AMOUNT
from agents.core.money import MAX_MINOR
from agents.core.requests import Json, Request, question, request_body

MAX_CHARS = 256 * 1024
_MAX_DEPTH = 20
_MAX_DIGITS = 1000  # of one integer


class BadJson(ValueError):
    """The text is not acceptable JSON. The message says why."""


def parse(text: str, *, keep_non_finite: bool = False) -> Json:
    """Return the value of `text`. Raises BadJson.

    `keep_non_finite` lets NaN, Infinity and 1e400 through as floats, for a caller that can then
    name the argument.
    """
    if len(text) > MAX_CHARS:
        raise BadJson(f"longer than {MAX_CHARS} characters")
    if _depth(text) > _MAX_DEPTH:
        raise BadJson(f"nested deeper than {_MAX_DEPTH}")
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
    if brackets <= _MAX_DEPTH:
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
    members = dict(pairs)
    if len(members) < len(pairs):
        raise BadJson("a key stands twice in one object")
    return members


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise BadJson(f"an integer of more than {_MAX_DIGITS} digits")
    return int(digits)


class Rounded(float):
    """A float of so many digits that another number may have been written: 5001.0000000000001."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_bounded_int,
    parse_float=lambda text: (Rounded if len(text) > 17 else float)(text),
)


# Exact JSON schemas: every property is required, and no others are allowed.
#
# They use only what strict structured output accepts: bounds of numbers and lengths of lists, but
# nothing for texts. Our own parsers check the rest, and everything else again.


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
    schemas = list(branches)
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


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
    schema = _KINDS.get(kind.removesuffix("?"), TEXT)
    return {**schema, "type": [schema["type"], "null"]} if kind.endswith("?") else schema


def fit(value: Json, schema: Json, *, is_untyped: bool = False) -> Json:
    """Return a value with whole floats as integers where its schema has only integers.

    An untyped value is all text: where the schema expects another type, it is read as JSON.
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
    # A Rounded number is not whole; neither is one that another reader may have rounded.
    is_whole = type(value) is float and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole and "integer" in kinds and "number" not in kinds else value


# One spelling for each value, so that equal values have equal hashes.


def canonical(value: Json) -> str:
    """Return `value` as JSON with sorted keys and no spaces. Raises TypeError, ValueError."""
    return _CANONICAL.encode(value)


_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def as_stored(value: Json) -> Json:
    """Return `value` as it will look when read back, so that a replay sees the same."""
    return decode(canonical(value))


def sha256(value: Json) -> str:
    """Return the SHA-256 of the canonical form in hex. It binds approvals to arguments."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def hash_of_token(token: str) -> str:
    """Return the SHA-256 of a random token in hex, which is kept in its place."""
    return hashlib.sha256(token.encode()).hexdigest()


def fingerprint(request: Request) -> str:
    """Return the hash of a step's request; a replay with another one has diverged."""
    return sha256(question(request_body(request)))


def digest_request(request: Request) -> tuple[str, Json]:
    """Return a request's fingerprint, and its body as it will be when read back."""
    body = request_body(request)
    text = canonical(question(body))
    kept = decode(text)
    if body.get("guide"):
        kept["guide"] = decode(encode(body["guide"]))
    return hashlib.sha256(text.encode()).hexdigest(), kept


def args_hash(args: Json, *, fold_spaces: bool = True) -> str:
    """Return the 12 hex digits that the reference prints of arguments.

    For loop detection and the trace. It folds white space and has 48 bits, so it never binds an
    approval: `sha256` does. The orchestrator's variant does not fold spaces.
    """
    value = _fold_spaces(args) if fold_spaces else args
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _fold_spaces(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {key: _fold_spaces(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_fold_spaces(item) for item in value]
    return value


# Write and read the JSON of rows, whose form does not matter, as fast as it can be had.
#
# A run writes and reads some sixty values. What is hashed has the form of `canonical`.


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
