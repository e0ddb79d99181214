"""Sentences with places: "Give {subject} the role {role}".

A place is a plain name. No attributes, no formats, no second pass: braces in a value stay text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from agents.sdk.values import show

_PLACE = re.compile(r"\{(\w+)\}")


def fill(sentence: str, values: Mapping[str, Any]) -> str:
    """Return the sentence with its places filled; a place without a value stays."""
    return _PLACE.sub(lambda m: show(values[m[1]]) if m[1] in values else m[0], sentence)


def places_of(sentence: str) -> list[str]:
    """Return the names of a sentence's places, in order."""
    return _PLACE.findall(sentence)


def check_places(owner: str, sentence: str, names: Collection[str]) -> None:
    """Raise TypeError if a sentence has a place that `owner` cannot fill."""
    unknown = sorted(set(places_of(sentence)) - set(names))
    if unknown:
        raise TypeError(f"{owner} has no {', '.join(unknown)} for its sentence {sentence!r}")
