"""Tell what a ticket is about, from its words."""

from __future__ import annotations

import re
from collections.abc import Mapping

TOPICS: Mapping[str, tuple[str, ...]] = {
    "billing": ("refund", "charge", "billing", "invoice"),
    "technical": ("error", "bug", "incident", "api", "latency"),
    "sales": ("price", "pricing", "plan", "quote", "discount"),
}

_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("", "s", "d", "ed", "ing", "able")
_NEGATIONS = frozenset({"not", "no", "never", "without", "isn", "don", "doesn", "nothing"})
_REACH = 3  # words that a negation before them denies


def is_about(topic: str, ticket: str) -> bool:
    """Tell whether a ticket is about one topic and more so than about any other.

    Whole words count, not parts of words, and not what is denied: who is unsure says no, so
    that somebody else, in the end a person, looks at it (ROU-Q2).
    """
    hits = {name: _hits(keywords, ticket) for name, keywords in TOPICS.items()}
    others = max(count for name, count in hits.items() if name != topic)
    return hits[topic] > others


def _hits(keywords: tuple[str, ...], ticket: str) -> int:
    """Return how many words of the ticket are keywords and are not denied."""
    words = _WORD.findall(ticket.lower())
    known = {keyword + ending for keyword in keywords for ending in _ENDINGS}
    return sum(
        word in known and not _NEGATIONS & set(words[max(0, place - _REACH) : place])
        for place, word in enumerate(words)
    )
