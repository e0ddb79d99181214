"""Find keys and tokens in a text, which are never stored.

Every repetition is bounded or continues where it ended, so the time is linear in the length.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

SHORTEST = 8  # characters of our own secrets that are looked for; shorter ones may be words
Span = tuple[int, int]  # from where to before where

_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.{0,20000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*)",
    re.S,
)
_TOKEN = re.compile(r"[A-Za-z0-9_.~+/=-]{16,}")
_PREFIX = re.compile(  # of keys with an issuer's prefix: sk-…, ghp_…, xoxb-…
    r"(?:^|[^A-Za-z0-9])(?=(?:(?:[spr]k|gh[a-z]|github_pat|gl(?:pat|sa|[a-z]{1,3}t)|xox[a-z]|xapp"
    r"|opsc|xai|npm|pypi|rubygems|hf|gsk|r8|nvapi|pplx|shp[a-z]{2}|whsec|gocspx|dckr_[a-z]{2,4}"
    r"|do[opr]_v1|lin_api|sbp|figd|ntn|tskey|sntry[a-z]|pmak|nrak|sq0[a-z]{3}|age-secret-key"
    r")[-_]|hv[sbr]\.))",
    re.I,
)
_ISSUED = re.compile(
    r"(?:AKIA|ASIA|ABIA|ACCA|AIDA|AROA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|SG\.[\w-]{16,64}\.[\w-]{16,}|[0-9]{8,10}:AA[\w-]{30,}"
)
_IN_ADDRESS = re.compile(r"://[^\s:/@]{0,64}:([^\s/]{3,200})@")  # https://ada:secret@host
_AFTER_WORD = re.compile(r"\b(?:bearer|basic)[\s:]{1,4}([A-Za-z0-9._~+/=-]{12,})", re.I)
_IN_HEADER = re.compile(  # Authorization: Token 9944b0…
    r"\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:[a-z][\w-]{0,30}\s{1,3})?([^\s\"']{8,500})",
    re.I,
)
_WORDS_FOR_ONE = (
    r"passwor[dt]|passwd|pwd|passphrase|kennwort|mot de passe|contrase[nñ]a|senha|palavra[- ]passe"
    r"|wachtwoord"
)
_NAMED = re.compile(
    rf"(?:(?P<password>{_WORDS_FOR_ONE})|secret|token|credential"
    r"|(?:api|access|account|auth|encryption|master|private|secret|shared|signing|storage)[-_ ]?key"
    r")s?[\"']?\s{0,3}(?P<sign>[:=]{1,2}>?|>|\bist?\b|(?<=\s))\s{0,3}"
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\n]{4,500})(?P=quote)|[\"']?(?P<bare>[^\s\"']{4,}+))",
    re.I,
)
# Lower-case words, one of which a text must contain to be worth searching.
_NAMES = "key", "pass", "pwd", "token", "secret", "credential", "wor", "woor", "contrase", "senha"
_BEARER, _AUTHORIZATION = ("bearer", "basic"), ("authorization",)
_WORDS = (*_NAMES, *_BEARER, *_AUTHORIZATION)
_LAST_MARKS = ".,;:!?)]}>'\""  # after a value, not part of it
_DIGIT, _LETTER = re.compile(r"[0-9]"), re.compile(r"[A-Za-z]")
_STRONG = re.compile(r"[0-9A-Z]")  # not in ordinary words
_OBJECT = "eyJ"  # how the base64 of a JSON object begins
_TELLING = re.compile(r"[0-9A-Z:=>]")  # a text without any of these has no key


def secret_spans(text: str, ours: Collection[str]) -> list[Span]:
    """Return the spans of secrets in a text. `ours` are the values of our own."""
    if len(text) < SHORTEST:
        return []
    return [*_spans(text), *_own(ours, text)]


def may_hold_secret(text: str, ours: Collection[str]) -> bool:
    """Tell whether a text, or a line of it, may hold a secret; True if unsure.

    The text is ASCII and without "@", which those in addresses need.
    """
    small = text.lower()
    if "-----" in text or any(map(small.__contains__, _WORDS)):
        return True
    unbroken = _unbroken(small)
    if any(sought in unbroken for _, sought in _to_seek(tuple(ours))):
        return True
    tokens = _TOKEN.findall(text)  # what is issued holds one of them
    return bool(tokens) and (
        any(_key_in(token) >= 0 for token in tokens) or _ISSUED.search(text) is not None
    )


def join_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, with overlapping ones joined."""
    apart: list[Span] = []
    for begin, end in sorted(spans):
        if apart and begin < apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((begin, end))
    return apart


def _spans(text: str) -> Iterator[Span]:
    if not _TELLING.search(text):
        return
    yield from (found.span() for found in _BLOCK.finditer(text))
    yield from (found.span() for found in _ISSUED.finditer(text))
    yield from (found.span(1) for found in _IN_ADDRESS.finditer(text))
    small = text.lower()
    for pattern, words in ((_AFTER_WORD, _BEARER), (_IN_HEADER, _AUTHORIZATION)):
        if any(map(small.__contains__, words)):
            yield from (m.span(1) for m in pattern.finditer(text) if _STRONG.search(m[1]))
    if any(map(small.__contains__, _NAMES)):
        yield from (span for m in _NAMED.finditer(text) for span in _named_value(m))
    for found in _TOKEN.finditer(text):
        begin = _key_in(found[0])
        if begin >= 0:
            yield found.start() + begin, found.end()


def _named_value(named: re.Match[str]) -> Iterator[Span]:
    """Yield the span of a value after a telling name, unless it reads as a word.

    A password may be short or a word, above all after an equals sign; in a sentence, or after
    another name, only a value unlike any word counts.
    """
    group = "bare" if named["quoted"] is None else "quoted"
    value = named[group].rstrip(_LAST_MARKS if group == "bare" else "")
    has_digit, is_strong = bool(_DIGIT.search(value)), bool(_STRONG.search(value))
    is_equated, is_password = "=" in named["sign"], bool(named["password"])
    if named["sign"].lower() in ("", "is", "ist"):
        is_secret = (
            len(value) >= (6 if is_password else 12) and has_digit and bool(_LETTER.search(value))
        )
    elif is_password:
        is_secret = len(value) >= (4 if has_digit else 8 if is_strong or is_equated else 12)
    else:
        is_secret = len(value) >= (8 if is_strong else 12) and (is_strong or is_equated)
    if is_secret:
        begin = named.start(group)
        yield begin, begin + len(value)


def _key_in(token: str) -> int:
    """Return where a key begins in an unbroken run of characters, or −1."""
    if not _STRONG.search(token):
        return -1  # the name of a field
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


def _own(values: Collection[str], text: str) -> Iterator[Span]:
    unbroken = _unbroken(text)
    for value, sought in _to_seek(tuple(values)):
        # The plain search first: it is cheap, and hardly any text holds a value of ours.
        if sought in unbroken:
            yield from (found.span() for found in _pattern_of(value).finditer(text))


def _unbroken(text: str) -> str:
    return "".join(text.split()).lower()


@lru_cache(maxsize=16)
def _to_seek(values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return those that are long enough to be looked for, with how each reads unbroken."""
    return [(value, _unbroken(value)) for value in values if len(value) >= SHORTEST]


@lru_cache(maxsize=16)
def _pattern_of(value: str) -> re.Pattern[str]:
    """Return a pattern for a value in any case, also broken by blanks and line ends."""
    return re.compile(r"\s{0,3}".join(map(re.escape, value)), re.I)
