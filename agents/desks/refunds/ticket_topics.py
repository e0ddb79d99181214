"""Classify a ticket by its words."""

from __future__ import annotations

import re
from collections.abc import Mapping

TOPICS: Mapping[str, tuple[str, ...]] = {
    "billing": ("refund", "charge", "billing", "invoice"),
    "technical": ("error", "bug", "incident", "api", "latency"),
    "sales": ("price", "pricing", "plan", "quote", "discount"),
}
_OF_MONEY = ("refund", "charge", "invoice")

_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("", "s", "d", "ed", "ing", "able")
_NEGATIONS = frozenset({"not", "no", "never", "without", "isn", "don", "doesn", "nothing"})
_REACH = 3  # words that a negation before them denies


def is_about(topic: str, ticket: str) -> bool:
    """Tell whether a ticket is about one topic more than about any other.

    Only whole words count, and not negated ones: an unsure specialist says no, so that another one
    or finally a person looks at it (ROU-Q2). A tie with billing is billing's if a word is of money.
    """
    hits = {name: _hits(keywords, ticket) for name, keywords in TOPICS.items()}
    most = max(hits.values())
    first = [name for name, count in hits.items() if count == most > 0]
    if len(first) > 1 and "billing" in first and _hits(_OF_MONEY, ticket):
        first = ["billing"]
    return first == [topic]


def _hits(keywords: tuple[str, ...], ticket: str) -> int:
    """Return the number of keywords in the ticket that are not negated."""
    words = _WORD.findall(ticket.lower())
    known = {keyword + ending for keyword in keywords for ending in _ENDINGS}
    return sum(
        word in known and not _NEGATIONS & set(words[max(0, place - _REACH) : place])
        for place, word in enumerate(words)
    )
