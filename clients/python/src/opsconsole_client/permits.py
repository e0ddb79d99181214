"""Verify permits, at the server of a tool that an agent calls itself.

Needs `opsconsole-client[permits]`. A permit names one call, for at most a minute. The server itself
must accept each once: store its number (`jti`) as the key of your action, in one transaction with
it, and do nothing for a number that you have.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import jwt
from jwt.utils import base64url_decode

Json = Any
_ALGORITHMS, _KIND, _WHOLE = ["EdDSA"], "permit+jwt", 2**53


class BadPermit(Exception):
    """The permit does not allow this call here and now. Do nothing."""


class Verifier:
    """Verifies the permits for one server, by the console's public keys.

    `keys` is the address of those keys, `https://…/api/v1/permits/keys`, or its answer.
    """

    def __init__(self, keys: str | Mapping[str, Json], server: str) -> None:
        self._server = server
        if isinstance(keys, str):
            self._key: Callable[[str], Any] = jwt.PyJWKClient(keys).get_signing_key
        else:
            self._key = jwt.PyJWKSet.from_dict(dict(keys)).__getitem__

    def verify(self, permit: str, tool: str, arguments: Mapping[str, Json]) -> str:
        """Return the permit's number if it is for exactly this call. Raises BadPermit."""
        try:
            head, body = (_read(part) for part in permit.split(".")[:2])
            needed: Any = {"require": ["exp", "aud", "jti"], "verify_iat": False}
            key = self._key(head["kid"])
            jwt.decode(permit, key, _ALGORITHMS, audience=self._server, options=needed)
            action = {"name": tool, "args": dict(arguments)}
            is_meant = head["typ"] == _KIND and _is_same(body["action"], action)
            if is_meant and body["digest"] == _digest(action) and isinstance(body["jti"], str):
                return str(body["jti"])
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadPermit(f"The permit cannot be used: {error}") from error
        raise BadPermit("The permit is for another call.")


def _read(part: str) -> Json:
    return json.loads(base64url_decode(part), object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands in it twice")
    return dict(pairs)


def _is_same(one: Json, other: Json) -> bool:
    """Tell whether values are equal, type by type: neither 1.0 nor "1" nor true is 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[n], other[n]) for n in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _digest(action: Json) -> str:
    text = json.dumps(_exact(action), separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _exact(value: Json) -> Json:
    """Return a value in the order of RFC 8785. Raises ValueError for a number that is not exact."""
    if isinstance(value, dict):
        return {n: _exact(value[n]) for n in sorted(value, key=lambda n: n.encode("utf-16-be"))}
    if isinstance(value, list):
        return [_exact(one) for one in value]
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= _WHOLE):
        raise ValueError("a number in it is not exact everywhere")
    return value
