"""What a tool's call does to the world, and unknown outcomes."""

from __future__ import annotations

from enum import StrEnum


class Touch(StrEnum):
    READ = "read"  # changes nothing: may be repeated freely
    SAFE = "safe"  # changes the world at most once per key: may be repeated with the same key
    ONCE = "once"  # changes the world each time: if the outcome is unknown, a person is asked


class OutcomeUnknown(Exception):
    """The key does not tell whether the call took effect."""
