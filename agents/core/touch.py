"""What a call of a tool does to the world, and what cannot be told of it."""

from __future__ import annotations

from enum import StrEnum


class Touch(StrEnum):
    READ = "read"  # changes nothing: may be called again freely
    SAFE = "safe"  # changes the world once per key: may be called again with the same key
    ONCE = "once"  # changes the world each time: where it is unsure whether it ran, ask a person


class OutcomeUnknown(Exception):
    """Nobody can tell by key whether the effect took place."""
