"""Patterns, driven with scripted replies."""


def deciding(reason: str) -> dict[str, str]:
    """Return a review's deciding ruling, as far as patterns read it."""
    return {"reason": reason, "rule": "a.rule", "sentence": "No.", "flip": ""}
