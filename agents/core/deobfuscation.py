"""Read a text as it would be understood, keeping the position of each letter.

Wide letters, digits of other scripts or in circles, other dashes, accents and invisible letters are
read as what they stand for. A second reading also decodes JSON escapes, HTML entities and URL
escapes, even within one another.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

_ROUNDS = 5  # levels of nested escapes that are decoded
_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
_SPELLED = re.compile(r"[\\&%\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SPELLING = re.compile(
    r"(?<!\\)\\++(?:u(?P<pair>d[89ab][0-9a-f]{2}\\++ud[c-f][0-9a-f]{2})"
    r"|(?-i:U)(?P<long>[0-9a-f]{8})|u(?P<four>[0-9a-f]{4})|u\{(?P<braced>[0-9a-f]{1,6})\}"
    r"|x(?P<two>[0-9a-f]{2})|(?P<blank>[nrtfv])|(?P<mark>[^0-9A-Za-z\s\\])|(?P<back>b))"
    r"|(?P<entity>&(?:\#[0-9]{1,7}|\#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,20});?)"
    r"|(?P<signs>(?:%[0-9a-f]{2})++)|(?P<hidden>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f])",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as read. Its letter n was written from `begins[n]` to before `ends[n]`."""

    text: str
    begins: Sequence[int]
    ends: Sequence[int]


def ways_to_read(text: str) -> tuple[Callable[[str], Reading], ...]:
    """Return the readings of a text: with escapes decoded, if it has any, then as it stands.

    The latter too, since decoding what only looks like an escape would break its surroundings.
    """
    return (read_undone, read_plainly) if _SPELLED.search(text) else (read_plainly,)


def read_plainly(text: str) -> Reading:
    """Return a text with each letter read as what it stands for."""
    return _fold(_as_written(text))


def read_undone(text: str) -> Reading:
    """Return a text read plainly, with escapes decoded."""
    return _fold(_undo(text))


def undone(text: str) -> str:
    """Return a text with escapes decoded, its letters as they are."""
    return _undo(text).text


def _undo(text: str) -> Reading:
    reading = _as_written(text)
    for _ in range(_ROUNDS):
        less = _undo_once(reading)
        if less.text == reading.text:
            break
        reading = less
    return reading


def _as_written(text: str) -> Reading:
    return Reading(text, range(len(text)), range(1, len(text) + 1))


def _undo_once(reading: Reading) -> Reading:
    parts: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    done = 0
    for spelling in _SPELLING.finditer(reading.text):
        begin, end = spelling.span()
        letters = _letters_of(spelling)
        parts += [reading.text[done:begin], letters]
        begins += [*reading.begins[done:begin], *[reading.begins[begin]] * len(letters)]
        ends += [*reading.ends[done:begin], *[reading.ends[end - 1]] * len(letters)]
        done = end
    rest = reading.text[done:]
    return Reading(
        "".join([*parts, rest]), [*begins, *reading.begins[done:]], [*ends, *reading.ends[done:]]
    )


def _letters_of(spelling: re.Match[str]) -> str:
    """Return what an escape stands for, "" if invisible."""
    kind, written = spelling.lastgroup, spelling[spelling.lastgroup or 0]
    if kind == "entity":
        return html.unescape(written)
    if kind == "signs":
        return unquote(written)
    if kind == "pair":
        high, low = int(written[:4], 16), int(written[-4:], 16)
        return chr(0x10000 + (high % 0x400 << 10) + low % 0x400)
    if kind in ("long", "four", "braced", "two"):
        code = int(written, 16)
        return chr(code) if code <= 0x10FFFF else ""
    return {"blank": "\n", "mark": written}.get(kind or "", "")


def _fold(reading: Reading) -> Reading:
    """Return a reading with each letter read as what it stands for."""
    if reading.text.isascii():
        return reading
    letters: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    for char, begin, end in zip(reading.text, reading.begins, reading.ends, strict=True):
        plain = char if char.isascii() else _plain(char)
        letters.append(plain)
        begins += [begin] * len(plain)
        ends += [end] * len(plain)
    return Reading("".join(letters), begins, ends)


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    """Return what a letter stands for, "" if invisible."""
    category = unicodedata.category(char)
    if category in ("Cf", "Mn", "Me", "Cs", "Cc") or char in _BLANK_LETTERS:
        return ""
    digit = unicodedata.digit(char, None)
    if digit is not None or category == "Pd":
        return "-" if digit is None else str(digit)
    return unicodedata.normalize("NFKC", char)
