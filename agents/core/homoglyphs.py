"""Find deceptive words: with letters of two scripts, or with invisible ones.

A name with a Cyrillic "а" among Latin letters looks like another person's. A word entirely in
another script is left alone, as names are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

# Whose letters pass for each other's. Letters made for formulas and wide ones pass for all of them.
SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
DRESSED = ("MATHEMATICAL", "FULLWIDTH")
_BLANK = ("FILLER", "VARIATION SELECTOR", "GRAPHEME JOINER", "VOWEL INHERENT", "NULL NOTE")
_JOINERS, EMOJI_FORM = "\u200c\u200d", "\ufe0f"
_SIGNS, _KEYCAPS = ("So", "Sk"), "0123456789#*"
_JOINED = ("Lo", "Mn", "Mc", *_SIGNS)
_WORD = re.compile(r"[^\s.,;:!?()\"“”„«»/]+")


def homoglyph_warnings(text: str) -> Iterator[str]:
    """Yield a sentence on each deceptive word of a text."""
    for word in dict.fromkeys(_WORD.findall(text)):
        if word.isascii():
            continue
        hidden = invisible_characters(word)
        found = sorted({script for char in word if (script := _script(char))})
        if hidden:
            points = ", ".join(f"U+{ord(char):04X}" for char in dict.fromkeys(hidden))
            yield f"“{_bare(word)}” holds characters that are not shown: {points}."
        elif len(found) > 1:
            yield f"“{word}” mixes letters of different scripts: {' and '.join(found)}."


def invisible_characters(text: str) -> list[str]:
    """Return the invisible characters of a text, in order.

    By rule, not by list: characters that only format, select a variant or fill space, and private
    or unassigned ones. A joiner counts as visible where scripts and emoji need it: between letters
    without case or signs.
    """
    if text.isascii():
        return []
    around = zip(f" {text}", text, f"{text[1:]} ", strict=False)
    return [c for before, c, after in around if _is_blank(c) and not _joins(before, c, after)]


@lru_cache(maxsize=4096)
def _is_blank(char: str) -> bool:
    if unicodedata.category(char) in ("Cf", "Co", "Cn", "Cs"):
        return True
    name = unicodedata.name(char, "")
    is_named_so = name.endswith("BLANK") or any(word in name for word in _BLANK)
    return is_named_so and not char.isascii()


def _joins(before: str, char: str, after: str) -> bool:
    if char == EMOJI_FORM:
        is_keycap = before in _KEYCAPS and after == "\u20e3"
        return is_keycap or unicodedata.category(before) in _SIGNS
    joined = unicodedata.category(before) in _JOINED or before == EMOJI_FORM
    return char in _JOINERS and joined and unicodedata.category(after) in _JOINED


def _script(char: str) -> str:
    """Return a letter's script; "" if the letter cannot be mistaken for another script's."""
    if not char.isalpha():
        return ""
    first = unicodedata.name(char, "").partition(" ")[0]
    return first.capitalize() if first in (*SCRIPTS, *DRESSED) else ""


def _bare(word: str) -> str:
    return "".join(char for char in word if not _is_blank(char))
