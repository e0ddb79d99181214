"""Texts of an event that may be erased: the chain holds a salted digest, the text lies beside it.

With its salt a text proves itself; once both are gone nobody can tell what it was, not even by
trying every name there is, and the chain is what it was before.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from agents.core.requests import Json

TEXTS = "texts"  # the fact that holds the digests, by name
ERASURE = "person.erased"  # the event that tells of an erasure in a chain


@dataclass(frozen=True)
class Text:
    """A text as it is kept: JSON in its canonical form, and its salt; both "" once erased."""

    salt: str
    text: str
    erased: bool = False


def digest_of(salt: str, text: str) -> str:
    """Return what an event's hash covers in place of a text: HMAC-SHA256 under its salt."""
    return hmac.new(salt.encode(), text.encode(), hashlib.sha256).hexdigest()


def unfit(facts: Json, kept: Mapping[str, Text]) -> str:
    """Return why the texts beside an event are not those it was written with, or ""."""
    digests = facts.get(TEXTS, {})
    for name in sorted(digests.keys() | kept.keys()):
        text = kept.get(name)
        if text is None:
            return f"its text {name!r} is gone without a trace"
        if name not in digests:
            return f"a text {name!r} was put beside it"
        if not text.erased and digest_of(text.salt, text.text) != digests[name]:
            return f"its text {name!r} is not what was written"
        if text.erased and (text.salt or text.text):
            return f"its text {name!r} is erased and still there"
    return ""


# Facts, by their names, that are words of people or models, what a tool returned, or a hash of such
# words, which whoever can guess them can check.
_WORDS = {
    "comment",
    "correction",
    "note",
    "patch",
    "subject_key",
    "question",
    "why",
    "said",
    "triggers",
    "sha256",
    "args_sha256",
    "action_sha256",
    "goal_sha256",
    "workflow_sha256",
    "simulation_sha256",
    "outcome_sha256",
}
_OF_KIND = {("verdict.rendered", "reason")}  # elsewhere it is a code
_REASONS = {"stop_reason", "failed"}  # a code, and behind a colon what it quotes


def without_texts(kind: str, facts: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the facts of an event that stay for good, and those that may have to be erased.

    Of a reason that quotes somebody the code stays.
    """
    plain: dict[str, Json] = {}
    texts: dict[str, Json] = {}
    for name, value in facts.items():
        if name in _WORDS or (kind, name) in _OF_KIND:
            texts |= {name: value} if value else {}
        elif name in _REASONS and ":" in value:
            plain[name] = value.partition(":")[0]
            texts[name] = value
        else:
            plain[name] = value
    return plain, texts
