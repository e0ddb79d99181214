"""Names from outside: which may be written to people, and which may be stored.

People choose their own names, and a link or telephone number in one would be sent under ours. The
rule for writing is narrow, that for storing wide: a company may be called 3M.
"""

from __future__ import annotations

import re
import unicodedata

from agents.core.homoglyphs import invisible_characters

LONGEST = 40  # characters of a name that may be written
MOST_WORDS = 4
MOST_DIGITS = 4
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
        and 0 < len(name.split(" ")) <= MOST_WORDS
        and bool(letters)
        and all(unicodedata.category(char)[0] in "LM" for char in letters)
        and not invisible_characters(name)
    )


def is_plain_plan(plan: str) -> bool:
    """Tell whether a plan's name is a few plain words, so that it may be written."""
    is_short = len(plan) <= LONGEST and _digits(plan) <= MOST_DIGITS
    return is_short and _PLAN.fullmatch(plan) is not None


def plan_in_words(plan: str) -> str:
    """Return a plan in words, "annual enterprise" for `annual_enterprise`; "" if not plain."""
    return plan.replace("_", " ") if is_plain_plan(plan) else ""


def holds_link(text: str) -> bool:
    """Tell whether a text contains parts of a link or an address."""
    found = _ADDRESS.search(unicodedata.normalize("NFKC", text))
    return bool(found or invisible_characters(text))


def holds_address(text: str) -> bool:
    """Tell whether a text contains parts of a link, an address or a telephone number."""
    return holds_link(text) or _digits(unicodedata.normalize("NFKC", text)) > MOST_DIGITS


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))
