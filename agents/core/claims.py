"""Tell whether an agent's words claim or announce a deed. They prove nothing either way."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SENTENCE = re.compile(r"[^.!?;\n]+(?:\.\d[^.!?;\n]*)*")
# What makes no claim of a sentence: it denies, or it speaks of what may be.
_DENIES = re.compile(
    r"n't\b|\b(?:not|never|cannot|unable|nothing|nobody|if|once|would|could)\b", re.I
)
_QUESTION = re.compile(
    r"(?:what|which|who|whose|when|where|why|how(?! about)|is|are|was|were|do|does|did|has|have)\b"
    r"(?:[^.!?;\n]|\.(?=\S))*\?",
    re.IGNORECASE,
)
_DEEDS = (
    *("pay", "paid", "send", "sent", "mak", "made", "done", "complet", "process", "initiat"),
    *("execut", "carri", "enter", "book", "schedul", "arrang"),
)
_FORMS = r"(?:e|d|ed|red|led|ing|es|s)?\b"  # so that nobody completely free completes anything
_ADVERBS = r"(?:(?:be|been|being|now|just|already|then|also|successfully)\s+)*"


def asks_only(goal: str) -> bool:
    """Tell whether a goal is one question for facts, and no polite request."""
    return _QUESTION.fullmatch(goal.strip()) is not None


def claims_deed(text: str, tools: Iterable[str] = ()) -> bool:
    """Tell whether a text says that something was done or will be; `tools` name what can be."""
    words = {word for name in tools for word in name.split("_") if len(word) > 2}
    verbs = rf"(?:{'|'.join(map(re.escape, sorted({*_DEEDS, *words})))}){_FORMS}"
    claim = re.compile(
        rf"^\s*done\b|\bsuccessfully\b|\b(?:has|have|was|were|is|are|will|shall|going to|I|we)\s+"
        rf"{_ADVERBS}{verbs}|\b(?:I|we)'(?:ll|ve)\s+{_ADVERBS}{verbs}",
        re.IGNORECASE,
    )
    said = (sentence for sentence in _SENTENCE.findall(text) if not _DENIES.search(sentence))
    return any(claim.search(sentence) for sentence in said)
