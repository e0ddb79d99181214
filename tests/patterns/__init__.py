"""Patterns, driven with scripted replies."""

from __future__ import annotations


def deciding(reason: str) -> dict[str, str]:
    """Return the ruling that decides a review, as far as patterns read it."""
    return {"reason": reason, "rule": "a.rule", "sentence": "No.", "flip": ""}
