"""Sentences with places: "Give {subject} the role {role}".

A place is a plain name; {subject} is what a run is about, and {args.subject} an argument of that
name. No other attributes, no formats, no second pass: braces in a value stay text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from agents.sdk.values import show

SUBJECT = "subject"  # the place in a sentence where the label of the subject goes
OF_ARGS = "args."
PLACE = re.compile(r"\{((?:args\.)?\w+)\}")
T = TypeVar("T")


def fill(sentence: str, values: Mapping[str, Any]) -> str:
    """Return the sentence with its places filled; a place without a value stays."""
    return PLACE.sub(lambda m: show(values[m[1]]) if m[1] in values else m[0], sentence)


def places_of(sentence: str) -> list[str]:
    """Return the names of a sentence's places, in order."""
    return PLACE.findall(sentence)


def arguments_in(sentence: str) -> list[str]:
    """Return the arguments that a sentence says, in order."""
    return [name.removeprefix(OF_ARGS) for name in places_of(sentence) if name != SUBJECT]


def with_subject(args: Mapping[str, T], subject: T) -> dict[str, T]:
    """Return the values for a sentence's places, by these arguments and the subject's label."""
    return {**{f"{OF_ARGS}{name}": args[name] for name in args}, **args, SUBJECT: subject}


def check_places(owner: str, sentence: str, names: Collection[str]) -> None:
    """Raise TypeError if a sentence has a place that `owner` cannot fill."""
    unknown = sorted(set(places_of(sentence)) - set(with_subject(dict.fromkeys(names), None)))
    if unknown:
        raise TypeError(f"{owner} has no {', '.join(unknown)} for its sentence {sentence!r}")
