"""Mask card numbers, IBANs and email addresses by policy, and secrets always.

Text is masked before it is stored, logged or sent, in time proportional to its length whatever it
contains: every repetition is bounded. It is searched as in `core.readings`, since a reader would
decode the escapes of a model's JSON after the masking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from agents.core.finders import addresses, cards, ibans
from agents.core.readings import Reading, ways_to_read
from agents.core.requests import Json
from agents.core.secrets import join_overlaps, secret_spans

CARDS, IBANS, EMAILS = KINDS = ("card_numbers", "ibans", "emails")
KEY_MASK = "[secret]"  # of keys and tokens, which no policy lets pass
MASKS = {CARDS: "[card number]", IBANS: "[IBAN]", EMAILS: "[e-mail]"}

# Also as a model may spell one: [email], [Card-Number].
_ANY_MASK = re.compile(r"\[\s?(?:secret|card[ -]?numbers?|iban|e-?mail)\s?\]", re.I)
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
_LONGEST_NUMBER = 80  # characters
# What may precede and follow a number in JSON; in an array only after its beginning.
_BEFORE, _NEXT = re.compile(r"(?:\"\s{0,9}:|[\[,])\s{0,40}\Z"), re.compile(r"\s{0,40}[,}\]]")
_TELLING = re.compile(r"[^\W_A-Za-z]|@")  # a text without either has nothing to mask
_LEAST = 6  # characters of the shortest that is masked: a@b.cd
_Place: TypeAlias = tuple[int, int]
_Find: TypeAlias = Callable[[str], Iterable[_Place]]
_Finders: TypeAlias = Sequence[tuple[_Find, str]]


def mask(
    text: str, kinds: Collection[str], *, kept: Collection[str] = (), ours: Collection[str] = ()
) -> str:
    """Return `text` with secrets and personal data of these kinds masked.

    Addresses in `kept`, in lower case, stay. `ours` are the values of our own secrets.
    """
    return _mask(text, _finders(kinds, kept, ours))


def mask_json(
    value: Json, kinds: Collection[str], *, kept: Collection[str] = (), ours: Collection[str] = ()
) -> Json:
    """Mask every text in a JSON value, keys included."""
    return _mask_json(value, _finders(kinds, kept, ours))


def masks_in(value: Json, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield each mask in a JSON value, keys included, after the name of the field it stands in."""
    if isinstance(value, str):
        yield from ((place, mask) for mask in _ANY_MASK.findall(value))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from masks_in(name, place or name)
            yield from masks_in(item, place or name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from masks_in(item, place)


def without_masks(text: str) -> str:
    """Return a text in which no mask names anything: what it stood for is not known."""
    return _ANY_MASK.sub(" ", text)


def _finders(kinds: Collection[str], kept: Collection[str], ours: Collection[str]) -> _Finders:
    """Return the finders of secrets and these kinds of personal data, with their masks."""
    personal: dict[str, _Find] = {
        IBANS: ibans,  # before card numbers, which their digits may look like
        CARDS: cards,
        EMAILS: lambda read: addresses(read, kept),
    }
    return [
        (lambda read: secret_spans(read, ours), KEY_MASK),
        *((find, MASKS[kind]) for kind, find in personal.items() if kind in kinds),
    ]


def _mask(text: str, finders: _Finders) -> str:
    if len(text) < _LEAST:
        return text
    for read in ways_to_read(text):
        reading = read(text)
        for find, instead in finders if _TELLING.search(reading.text) else finders[:1]:
            masked = _replace_spans(text, reading, find(reading.text), instead)
            if masked is not text:
                text, reading = masked, read(masked)
    return text


def _mask_json(value: Json, finders: _Finders) -> Json:
    if isinstance(value, str):
        return _mask(value, finders)
    if isinstance(value, list | tuple):
        return [_mask_json(item, finders) for item in value]
    if isinstance(value, dict):
        return {_mask(name, finders): _mask_json(item, finders) for name, item in value.items()}
    return value


def _replace_spans(text: str, reading: Reading, spans: Iterable[_Place], mask: str) -> str:
    """Return `text` with a mask for each span of its reading."""
    found = join_overlaps(spans)
    if not found:
        return text
    parts, done, array = [], 0, text.find("[")
    for begin, end in found:
        start, stop = reading.begins[begin], reading.ends[end - 1]
        if number := _json_number(text, start, stop, is_in_array=0 <= array < start):
            start, stop = number
        if stop <= done:
            continue
        parts += [text[done:start], f'"{mask}"' if number else mask]
        done = stop
    return "".join([*parts, text[done:]])


def _json_number(text: str, begin: int, end: int, *, is_in_array: bool) -> _Place | None:
    """Return the span of a number that is a whole JSON value, whose mask needs quotes."""
    while begin > 0 and end - begin < _LONGEST_NUMBER and text[begin - 1] in "-.0123456789":
        begin -= 1
    number = _NUMBER.match(text, begin, begin + _LONGEST_NUMBER)
    if number is None or number.end() < end or not _NEXT.match(text, number.end()):
        return None
    before = _BEFORE.search(text[max(begin - 50, 0) : begin])
    if before is None or (before.group()[0] != '"' and not is_in_array):
        return None
    return begin, number.end()
