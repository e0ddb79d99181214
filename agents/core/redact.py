"""Mask card numbers, IBANs and email addresses by policy, and secrets always.

Text is masked before it is stored, logged or sent, in time proportional to its length whatever it
contains: every repetition is bounded. It is searched as in `core.readings`, since a reader would
decode the escapes of a model's JSON after the masking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

from agents.core.readings import Reading, ways_to_read
from agents.core.requests import Json
from agents.core.secrets import join_overlaps, secret_spans

CARDS, IBANS, EMAILS = KINDS = ("card_numbers", "ibans", "emails")
KEY_MASK = "[secret]"  # of keys and tokens, which no policy lets pass
MASKS = {CARDS: "[card number]", IBANS: "[IBAN]", EMAILS: "[e-mail]"}

_DIGITS = re.compile(r"[0-9]+(?:[^0-9A-Za-z@]{1,3}[0-9]+)*")  # groups and their separators
_USUAL = re.compile(r"[ .\-]?")  # between groups; other marks need the shape of a card
_SHAPES = {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 5)}
_MOST_GROUPS = max(map(len, _SHAPES))
_GROUP = re.compile(r"[0-9]+")
# Issuers' prefixes: other numbers that happen to pass the check, above all dates, are left alone.
_ISSUED = re.compile(r"[3-6]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)")
_SHORTEST, _LONGEST = 13, 19
_GROUP_OF_CARD = 4  # digits of its first group, where it begins within what passes the check too
_Sums: TypeAlias = tuple[list[int], ...]
_IBAN = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[0-9]{2}(?:[^A-Za-z0-9]{0,2}[A-Za-z0-9]){11,30}")
_LENGTHS = (  # of an IBAN, by its country
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 "
    "EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 "
    "IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 "
    "NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 "
    "TN24 TR26 UA29 VA22 VG24 XK20"
)
_LENGTH = {said[:2]: int(said[2:]) for said in _LENGTHS.split()}
_LETTER = re.compile(r"[A-Za-z0-9]")
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
_LONGEST_NUMBER = 80  # characters
# What may precede and follow a number in JSON; in an array only after its beginning.
_BEFORE, _NEXT = re.compile(r"(?:\"\s{0,9}:|[\[,])\s{0,40}\Z"), re.compile(r"\s{0,40}[,}\]]")
_DOMAIN = re.compile(r"@(?:[^\W_][\w-]{0,62}\.){1,8}[^\W\d_]{2,24}")
_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}\Z")
_LOCAL_LENGTH = 64
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


def _finders(kinds: Collection[str], kept: Collection[str], ours: Collection[str]) -> _Finders:
    """Return the finders of secrets and these kinds of personal data, with their masks."""
    personal: dict[str, _Find] = {
        IBANS: _ibans,  # before card numbers, which their digits may look like
        CARDS: _cards,
        EMAILS: lambda read: _addresses(read, kept),
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


def _cards(text: str) -> Iterator[_Place]:
    """Yield the spans of card numbers, which may overlap.

    Each begins and ends with a group of digits. Neighbouring digits such as an expiry date may pass
    the check with it: the longest in the form of a card counts.
    """
    for run in _DIGITS.finditer(text):
        groups = [found.span() for found in _GROUP.finditer(text, *run.span())]
        digits = "".join(text[begin:end] for begin, end in groups)
        if len(digits) < _SHORTEST or all(end - begin > _LONGEST for begin, end in groups):
            continue
        sums = _sums(digits)
        ends = [0, *accumulate(end - begin for begin, end in groups)]
        done = 0
        for first, (start, end) in enumerate(groups):
            if first < done and end - start < _GROUP_OF_CARD:
                continue
            for last in _ends_of_cards(digits, ends, first, sums):
                if _is_written_so(text, groups, first, last):
                    yield start, groups[last - 1][1]
                    done = last
                    break


def _is_written_so(text: str, groups: Sequence[_Place], first: int, last: int) -> bool:
    """Tell whether digits have the form of a card: usual separators, or a card's grouping.

    A list of numbers, by line or with commas, has none: its separators continue on either side.
    """
    if last - first > _MOST_GROUPS and not _USUAL.fullmatch(
        text, groups[first][1], groups[first + 1][0]
    ):
        return False  # what follows would say the same, slowly
    within = {text[end:begin] for (_, end), (begin, _) in pairwise(groups[first:last])}
    if all(map(_USUAL.fullmatch, within)):
        return True
    sides = (groups[max(first - 1, 0) : first + 1], groups[last - 1 : last + 1])
    around = {text[end:begin] for side in sides for (_, end), (begin, _) in pairwise(side)}
    shape = tuple(end - begin for begin, end in groups[first:last])
    return shape in _SHAPES and not within & around


def _ends_of_cards(digits: str, ends: list[int], first: int, sums: _Sums) -> list[int]:
    """Return the groups with which a number beginning at `first` may end, the longest first."""
    begin, found = ends[first], list[int]()
    if not _ISSUED.match(digits, begin):
        return found
    for last in range(first + 1, len(ends)):
        end = ends[last]
        if end - begin > _LONGEST:
            break
        # Luhn: every second digit counts double, from the right, its own digits summed.
        total = sums[end % 2][end] - sums[end % 2][begin]
        if end - begin >= _SHORTEST and total % 10 == 0:
            found.insert(0, last)
    return found


def _sums(digits: str) -> _Sums:
    """Return the sums up to each place, for numbers that end behind an even and an odd one."""
    once = [int(digit) for digit in digits]
    twice = [2 * n - 9 * (n > 4) for n in once]
    doubled = [(twice, once), (once, twice)]
    return tuple(
        [0, *accumulate((even, odd)[place % 2][place] for place in range(len(once)))]
        for even, odd in doubled
    )


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of IBANs; the country gives the length, so words may follow."""
    for found in _IBAN.finditer(text):
        length = _LENGTH.get(found.group(1).upper(), 0)
        places = [found.start() + m.end() for m in _LETTER.finditer(found.group())]
        if not length or len(places) < length:
            continue
        end = places[length - 1]
        written = "".join(_LETTER.findall(text[found.start() : end]))
        if _passes_97(written):
            yield found.start(), end


def _passes_97(written: str) -> bool:
    """Tell whether the check digits are right: letters count from A = 10, the first four last."""
    return int("".join(str(int(c, 36)) for c in written[4:] + written[:4])) % 97 == 1


def _addresses(text: str, kept: Collection[str]) -> Iterator[tuple[int, int]]:
    done = 0
    for domain in _DOMAIN.finditer(text):
        at = domain.start()
        local = _LOCAL.search(text[max(done, at - _LOCAL_LENGTH) : at])
        if local is None:
            continue
        begin = at - len(local.group())
        if text[begin : domain.end()].lower() not in kept:
            yield begin, domain.end()
        done = domain.end()
