"""Erasable texts of an event: the chain holds a salted digest, the text is stored beside it.

With its salt a text can be verified. Once both are gone, nobody can find out what it was, even by
trying every name, and the chain is unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from agents.core.requests import Json

TEXTS = "texts"  # the fact that holds the digests, by name
ERASURE = "person.erased"  # the event that records an erasure in a chain


@dataclass(frozen=True)
class Text:
    """A stored text: JSON in canonical form, and its salt; both "" once erased."""

    salt: str
    text: str
    erased: bool = False


def digest_of(salt: str, text: str) -> str:
    """Return the digest that an event's hash covers in place of a text: HMAC-SHA256, by salt."""
    return hmac.new(salt.encode(), text.encode(), hashlib.sha256).hexdigest()


def unfit(facts: Json, kept: Mapping[str, Text]) -> str:
    """Return why the texts beside an event are not its original ones, or ""."""
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


# Names of facts with words of people or models, results of tools, or hashes of such words, by which
# a guess could be checked.
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
    "before_sha256",
    "claims_sha256",
    "simulation_sha256",
    "outcome_sha256",
}
_OF_KIND = {("verdict.rendered", "reason")}  # elsewhere it is a code, maybe with a quotation
_REASONS = {"stop_reason", "failed", "reason"}  # a code and, after a colon, a quotation


def without_texts(kind: str, facts: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return an event's permanent facts, and those that may have to be erased.

    A reason's code is permanent, its quotation is not.
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
