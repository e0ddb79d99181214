"""Find card numbers, IBANs and email addresses in a text, in time proportional to its length.

Every repetition is bounded. What is found is generous: it may hold a neighbouring mark too.
`exact_place` says where a value stands to the letter, if that is certain.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

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
# In each text with a card number or an IBAN: thirteen digits, or how an IBAN begins.
NUMBERED = re.compile(
    r"[0-9](?:(?:[^0-9A-Za-z@]{0,3}[0-9]){12}"
    r"|(?<=(?<![A-Za-z0-9])[A-Za-z]{2}[0-9])[0-9](?:[^A-Za-z0-9]{0,2}[A-Za-z0-9]){11})"
)
_LENGTHS = (  # of an IBAN, by its country
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 "
    "EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 "
    "IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 "
    "NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 "
    "TN24 TR26 UA29 VA22 VG24 XK20"
)
_LENGTH = {said[:2]: int(said[2:]) for said in _LENGTHS.split()}
_LETTER = re.compile(r"[A-Za-z0-9]")
_DOMAIN = re.compile(r"@(?:[^\W_][\w-]{0,62}\.){1,8}[^\W\d_]{2,24}")
_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}\Z")
_LOCAL_LENGTH = 64
# An address to the letter: no mark at either end, and none of those that build other addresses.
_EXACT_LOCAL = re.compile(r"\w[\w+-]*(?:[.'][\w+-]+)*")
_QUOTES = "'`{|*"  # before an address, not part of it
_TOP_LEVEL = {"com", "org", "net", "edu", "gov", "mil", "int", "info", "biz"}
_Place: TypeAlias = tuple[int, int]


def cards(text: str) -> Iterator[_Place]:
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


def ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of IBANs; the country gives the length, so words may follow."""
    begin = 0
    while found := _IBAN.search(text, begin):
        begin = found.start() + 1  # another may begin within what is none
        length = _LENGTH.get(found.group(1).upper(), 0)
        places = [found.start() + m.end() for m in _LETTER.finditer(found.group())]
        if not length or len(places) < length:
            continue
        end = places[length - 1]
        written = "".join(_LETTER.findall(text[found.start() : end]))
        if _passes_97(written):
            yield found.start(), end
            begin = end


def _passes_97(written: str) -> bool:
    """Tell whether the check digits are right: letters count from A = 10, the first four last."""
    return int("".join(str(int(c, 36)) for c in written[4:] + written[:4])) % 97 == 1


def addresses(text: str, kept: Collection[str]) -> Iterator[tuple[int, int]]:
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


def exact_place(kind: str, text: str, begin: int, end: int) -> _Place | None:
    """Return where a found value of a kind of `core.redact` stands to the letter.

    None where its end is not certain: what follows may be part of it, or what it ends with not.
    """
    if kind != "emails":
        around = text[max(begin - 1, 0) : begin] + text[end : end + 1]
        is_apart = not re.search(r"\w", around)
        if kind == "card_numbers":  # the next group of digits may be one of its own
            is_apart &= not re.match(r"[ .-][0-9]", text[end : end + 2])
            is_apart &= not re.search(r"[0-9][ .-]\Z", text[max(begin - 2, 0) : begin])
        return (begin, end) if is_apart else None
    at = text.index("@", begin, end)
    local = text[begin:at].lstrip(_QUOTES)
    before, after = text[max(begin - 1, 0) : begin], text[end : end + 2]
    is_whole = _EXACT_LOCAL.fullmatch(local) and at - begin < _LOCAL_LENGTH
    if not is_whole or re.match(r"[\w@-]|\.\w", after) or re.match(r"[\w.@+-]", before):
        return None
    return (at - len(local), end) if _is_exact_domain(text[at + 1 : end]) else None


def _is_exact_domain(domain: str) -> bool:
    """Tell whether no word of the next sentence hangs on a domain: x.com.Thanks, x.de.thanks."""
    *labels, last = domain.split(".")
    if len(labels) > 1 and last[0].isupper() and labels[-1].islower():
        return False
    if len(last) == 2 or len(labels) == 1:
        return True
    is_behind_country = len(labels[-1]) == 2 and last.lower() not in _TOP_LEVEL  # but uk.com
    return not (is_behind_country or _TOP_LEVEL & {label.lower() for label in labels[1:]})
