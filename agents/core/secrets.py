"""Find keys and tokens in a text: what opens something, and therefore is never kept.

Every repetition is bounded or reads on from where it ended, so the time grows with the length.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import pairwise

SHORTEST = 8  # characters of a value of our own that is looked for; a shorter one is a word
_Span = tuple[int, int]

_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.{0,20000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*)",
    re.S,
)
_TOKEN = re.compile(r"[A-Za-z0-9_.~+/=-]{16,}")
_PREFIX = re.compile(  # of keys that say whose they are: sk-…, ghp_…, xoxb-…
    r"(?:^|[^A-Za-z0-9])(?=(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|npm|hf|shpat|whsec)[-_])",
    re.I,
)
_ISSUED = re.compile(
    r"(?:AKIA|ASIA|ABIA|ACCA|AIDA|AROA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|SG\.[\w-]{16,64}\.[\w-]{16,}"
)
_IN_ADDRESS = re.compile(r"://[^\s:/@]{1,64}:([^\s:/@]{3,200})@")  # https://ada:secret@host
_AFTER_WORD = re.compile(r"\b(?:bearer|basic)[\s:]{1,4}([A-Za-z0-9._~+/=-]{12,})", re.I)
_ASSIGNED = re.compile(
    r"(?<![A-Za-z])(?:api[-_ ]?key|secret(?:[-_ ]?(?:access[-_ ]?)?key)?|client[-_ ]?secret"
    r"|(?:(?:access|auth|refresh|session)[-_ ]?)?token|passw(?:or)?d|pwd|passphrase)"
    r"[\"']?\s{0,3}[:=]\s{0,3}[\"']?([^\s\"',;]{8,500})",
    re.I,
)
_STRONG = re.compile(r"[0-9A-Z]")  # no word of a language is written so
_OBJECT = "eyJ"  # how the base64 of a JSON object begins
_TELLING = re.compile(r"[0-9A-Z:]")  # no key is found in a text without any of these


def secret_spans(text: str, ours: Collection[str]) -> list[_Span]:
    """Return where secrets stand in a text, in order and apart. `ours` are values of our own."""
    if len(text) < SHORTEST:
        return []
    spans = sorted({*_spans(text), *(s for value in ours for s in _own(value, text))})
    apart: list[_Span] = []
    for begin, end in spans:
        if apart and begin < apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((begin, end))
    return apart


def _spans(text: str) -> Iterator[_Span]:
    if not _TELLING.search(text):
        return
    yield from (found.span() for found in _BLOCK.finditer(text))
    yield from (found.span() for found in _ISSUED.finditer(text))
    yield from (found.span(1) for found in _IN_ADDRESS.finditer(text))
    for pattern in (_AFTER_WORD, _ASSIGNED):
        yield from (m.span(1) for m in pattern.finditer(text) if _STRONG.search(m[1]))
    for found in _TOKEN.finditer(text):
        begin = _key_in(found[0])
        if begin >= 0:
            yield found.start() + begin, found.end()


def _key_in(token: str) -> int:
    """Return where a key begins in an unbroken run of characters; −1 where there is none."""
    prefix = _PREFIX.search(token)
    if prefix and len(token) - prefix.end() >= 15 and _STRONG.search(token, prefix.end()):
        return prefix.end()
    place = 0
    parts = token.split(".")
    for part, after in pairwise(parts):
        begin = part.find(_OBJECT)
        if begin >= 0 and len(part) - begin >= 10 and len(after) >= 8:
            return place + begin
        place += len(part) + 1
    return -1


def _own(value: str, text: str) -> Iterator[_Span]:
    if SHORTEST <= len(value) <= len(text):
        yield from (found.span() for found in _pattern_of(value).finditer(text))


@lru_cache(maxsize=16)
def _pattern_of(value: str) -> re.Pattern[str]:
    """Return what finds a value in any case of letters, also broken by blanks and line ends."""
    return re.compile(r"\s{0,3}".join(map(re.escape, value)), re.I)
