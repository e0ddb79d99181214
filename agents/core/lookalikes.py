"""Words that are not what they look like: letters of two scripts in one, or some that nobody sees.

A Cyrillic "а" in a Latin name passes for another customer's, and no person can see it. A word that
is foreign as a whole is left alone: that is how people are called.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Whose letters pass for each other's. Letters made for formulas and wide ones pass for all of them.
SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
DRESSED = ("MATHEMATICAL", "FULLWIDTH")
_WORD = re.compile(r"[^\s.,;:!?()\"“”„«»/]+")


def lookalikes(text: str) -> Iterator[str]:
    """Yield, a sentence each, the words of a text that a person should look at twice."""
    for word in dict.fromkeys(_WORD.findall(text)):
        if word.isascii():
            continue
        unseen = [char for char in word if unicodedata.category(char) == "Cf"]
        found = sorted({script for char in word if (script := _script(char))})
        if unseen:
            points = ", ".join(f"U+{ord(char):04X}" for char in dict.fromkeys(unseen))
            yield f"“{_bare(word)}” holds characters that are not shown: {points}."
        elif len(found) > 1:
            yield f"“{word}” mixes letters of different scripts: {' and '.join(found)}."


def _script(char: str) -> str:
    """Return whose letter it is; "" where nobody could take it for another's."""
    if not char.isalpha():
        return ""
    first = unicodedata.name(char, "").partition(" ")[0]
    return first.capitalize() if first in (*SCRIPTS, *DRESSED) else ""


def _bare(word: str) -> str:
    return "".join(char for char in word if unicodedata.category(char) != "Cf")
