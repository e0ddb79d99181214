"""A tool's call: its effect class, its place in ledger and inbox, and its permit."""

import hashlib
import json
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from agents.core.requests import Json


class Touch(StrEnum):
    READ = "read"  # changes nothing: may be repeated freely
    SAFE = "safe"  # changes the world at most once per key: may be repeated with the same key
    ONCE = "once"  # changes the world each time: if the outcome is unknown, a person is asked


class OutcomeUnknown(Exception):
    """The key does not tell whether the call took effect."""


class CallTarget(NamedTuple):
    """A call's subject, the resource that is locked and counted, and the amount it moves.

    Keys are the desk's own, the amount is in minor units.
    """

    subject_key: str = ""
    resource: str = ""
    amount_minor: int | None = None
    currency: str = ""


# A permit: one action, exactly, for one server, for at most a minute (decision 10).


_LASTS = timedelta(seconds=60)
SKEW = timedelta(seconds=30)  # by which a server's clock may be late
_WHOLE = 2**53  # from here on JSON numbers are not exact everywhere


def reported_by(intended_at: datetime, timeout: float) -> datetime:
    """Return the time by which an agent reports; `timeout` is its tool's limit in seconds.

    Until then a permit used at its last moment, under a late clock, may still take effect, so
    nobody may say that there was no effect.
    """
    return intended_at + _LASTS + SKEW + timedelta(seconds=timeout)


def expires_at(intended_at: datetime) -> int:
    """Return when a permit expires, in whole seconds since 1970."""
    return int((intended_at + _LASTS).timestamp())


def is_exact(value: Json) -> bool:
    """Tell whether a value reads alike in every language: no fractions and no large numbers."""
    if isinstance(value, dict):
        return all(is_exact(name) and is_exact(one) for name, one in value.items())
    if isinstance(value, list):
        return all(map(is_exact, value))
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in value)
    if isinstance(value, int):
        return -_WHOLE < value < _WHOLE
    return value is None


def claims_of(*, key: str, server: str, action: Json, intended_at: datetime) -> dict[str, Json]:
    """Return the contents of a permit."""
    return {
        "jti": key,
        "aud": server,
        "iat": int(intended_at.timestamp()),
        "exp": expires_at(intended_at),
        "action": action,
        "digest": digest_of(action),
    }


def digest_of(action: Json) -> str:
    """Return the SHA-256 of an exact value in the form of RFC 8785, in hex."""
    text = json.dumps(_in_order(action), separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _in_order(value: Json) -> Json:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return {name: _in_order(value[name]) for name in names}
    return [_in_order(one) for one in value] if isinstance(value, list) else value
