"""Names from outside: which may be written to people, and which may be stored.

People choose their own names, and a link or telephone number in one would be sent under ours. The
rule for writing is narrow, that for storing wide: a company may be called 3M.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

LONGEST = 40  # characters of a name that may be written
_MOST_WORDS = 4
_MOST_DIGITS = 4
_JOINTS = re.compile(r"(?<=\w)[-'’](?=\w)|(?<=\b\w)\.(?= |$)")  # Jean-Luc, O'Brien, J. Smith
_PLAN = re.compile(r"[A-Za-z][\w+-]*(?: [\w+-]+){0,2}", re.ASCII)
# What a name's dot may follow without a blank, besides an initial or a number: "Dr.Anna", "1.FC".
_SHORT = (
    *("dr", "med", "prof", "mag", "ing", "dipl", "lic", "rev", "mr", "mrs", "ms", "mme", "mlle"),
    *("hr", "fr", "frl", "sr", "sra", "jr", "st", "ste", "sta", "sto", "fam", "fa", "gebr", "bros"),
    "inh",
)
_NO_NAMES_DOT = "".join(rf"(?<!\b{word})" for word in (r"\w", *_SHORT))
_SUFFIX = "com|net|org|info|biz|io|app|xyz|shop|site|online|example"  # a link, whatever is before
_ADDRESS = re.compile(
    rf"[@\\]|//|:(?=\S)|\w{_NO_NAMES_DOT}[.。](?!\d)\w\w|\w[.。](?:(?:{_SUFFIX})\b|\w{{2,3}}/)|\bwww\b",
    re.I,
)


def greeting(name: str) -> str:
    """Return a letter's greeting, without the name if it is not plain."""
    return f"Hello {name}," if is_plain_name(name) else "Hello,"


def is_plain_name(name: str) -> bool:
    """Tell whether a name consists of letters like a person's, so that it may be written."""
    letters = _JOINTS.sub("", name).replace(" ", "")
    return (
        len(name) <= LONGEST
        and 0 < len(name.split(" ")) <= _MOST_WORDS
        and bool(letters)
        and all(unicodedata.category(char)[0] in "LM" for char in letters)
        and not invisible_characters(name)
    )


def is_plain_plan(plan: str) -> bool:
    """Tell whether a plan's name is a few plain words, so that it may be written."""
    is_short = len(plan) <= LONGEST and _digits(plan) <= _MOST_DIGITS
    return is_short and _PLAN.fullmatch(plan) is not None


def plan_in_words(plan: str) -> str:
    """Return a plan in words, "annual enterprise" for `annual_enterprise`; "" if not plain."""
    return plan.replace("_", " ") if is_plain_plan(plan) else ""


def holds_link(text: str) -> bool:
    """Tell whether a text contains parts of a link or an address."""
    address = _ADDRESS.search(unicodedata.normalize("NFKC", text))
    return bool(address or invisible_characters(text))


def holds_address(text: str) -> bool:
    """Tell whether a text contains parts of a link, an address or a telephone number."""
    return holds_link(text) or _digits(unicodedata.normalize("NFKC", text)) > _MOST_DIGITS


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))


# Find deceptive words: with letters of two scripts, or with invisible ones.
#
# A name with a Cyrillic "а" among Latin letters looks like another person's. A word entirely in
# another script is left alone, as names are.


# Scripts whose letters look alike. Letters for formulas and wide ones look like all of them.
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
_DRESSED = ("MATHEMATICAL", "FULLWIDTH")
_BLANK = ("FILLER", "VARIATION SELECTOR", "GRAPHEME JOINER", "VOWEL INHERENT", "NULL NOTE")
_JOINERS, _EMOJI_FORM = "\u200c\u200d", "\ufe0f"
_SIGNS, _KEYCAPS = ("So", "Sk"), "0123456789#*"
_JOINED = ("Lo", "Mn", "Mc", *_SIGNS)
_WORD = re.compile(r"[^\s.,;:!?()\"“”„«»/]+")


def homoglyph_warnings(text: str) -> Iterator[str]:
    """Yield a sentence on each deceptive word of a text."""
    for word in dict.fromkeys(_WORD.findall(text)):
        if word.isascii():
            continue
        hidden = invisible_characters(word)
        scripts = sorted({script for char in word if (script := _script(char))})
        if hidden:
            points = ", ".join(f"U+{ord(char):04X}" for char in dict.fromkeys(hidden))
            bare = "".join(char for char in word if not _is_blank(char))
            yield f"“{bare}” holds characters that are not shown: {points}."
        elif len(scripts) > 1:
            yield f"“{word}” mixes letters of different scripts: {' and '.join(scripts)}."


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
    if char == _EMOJI_FORM:
        is_keycap = before in _KEYCAPS and after == "\u20e3"
        return is_keycap or unicodedata.category(before) in _SIGNS
    joined = unicodedata.category(before) in _JOINED or before == _EMOJI_FORM
    return char in _JOINERS and joined and unicodedata.category(after) in _JOINED


def _script(char: str) -> str:
    """Return a letter's script; "" if the letter cannot be mistaken for another script's."""
    if not char.isalpha():
        return ""
    first = unicodedata.name(char, "").partition(" ")[0]
    return first.capitalize() if first in (*_SCRIPTS, *_DRESSED) else ""
