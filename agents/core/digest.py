"""One spelling for each value, so that equal values have equal hashes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agents.core.requests import Json, Request, question, request_body
from agents.core.row_json import decode, encode


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
