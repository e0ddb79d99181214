"""Names that come from elsewhere: which of them we may say to people, and which we take in.

People choose their own names, and a link or a telephone number in it would leave under ours.
What is said is the narrow rule and what is taken in the wide one: a company may be called 3M.
"""

from __future__ import annotations

import re
import unicodedata

from agents.core.homoglyphs import invisible_characters

LONGEST = 40  # characters of a name that is said
MOST_WORDS = 4
MOST_DIGITS = 4
_JOINTS = re.compile(r"(?<=\w)[-'’](?=\w)|(?<=\b\w)\.(?= |$)")  # Jean-Luc, O'Brien, J. Smith
_PLAN = re.compile(r"[A-Za-z][\w+-]*(?: [\w+-]+){0,2}", re.ASCII)
_ADDRESS = re.compile(r"[@/\\:]|\w[.。]\w{2}|\bwww\b", re.I)


def greeting(name: str) -> str:
    """Return how a letter begins; a name that is more than one is left out."""
    return f"Hello {name}," if is_plain_name(name) else "Hello,"


def is_plain_name(name: str) -> bool:
    """Tell whether a name is letters alone, as people are called, so that it may be said."""
    letters = _JOINTS.sub("", name).replace(" ", "")
    return (
        len(name) <= LONGEST
        and 0 < len(name.split(" ")) <= MOST_WORDS
        and bool(letters)
        and all(unicodedata.category(char)[0] in "LM" for char in letters)
        and not invisible_characters(name)
    )


def is_plain_plan(plan: str) -> bool:
    """Tell whether the name of a plan is a few plain words, so that it may be said."""
    is_short = len(plan) <= LONGEST and _digits(plan) <= MOST_DIGITS
    return is_short and _PLAN.fullmatch(plan) is not None


def plan_in_words(plan: str) -> str:
    """Return a plan in words, "annual enterprise" for `annual_enterprise`; "" if not plain."""
    return plan.replace("_", " ") if is_plain_plan(plan) else ""


def holds_address(text: str) -> bool:
    """Tell whether a text holds what a link, an address or a telephone number is made of."""
    folded = unicodedata.normalize("NFKC", text)
    return (
        bool(_ADDRESS.search(folded) or invisible_characters(text)) or _digits(folded) > MOST_DIGITS
    )


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))
