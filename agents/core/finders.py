"""Find card numbers, IBANs, email addresses, keys and tokens in a text as a reader understands it.

Every repetition is bounded, so the time is linear in the length. Spans are generous: they may
include a neighbouring mark. `exact_place` returns the exact span of a value, if that is certain.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TypeAlias
from urllib.parse import unquote

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
# Present in each text with a card number or an IBAN: thirteen digits, or the beginning of an IBAN.
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
# An exact address: no mark at either end, and none of those that build other addresses.
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
        groups = [match.span() for match in _GROUP.finditer(text, *run.span())]
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
        return False  # the rest would only repeat this, slowly
    within = {text[end:begin] for (_, end), (begin, _) in pairwise(groups[first:last])}
    if all(map(_USUAL.fullmatch, within)):
        return True
    sides = (groups[max(first - 1, 0) : first + 1], groups[last - 1 : last + 1])
    around = {text[end:begin] for side in sides for (_, end), (begin, _) in pairwise(side)}
    shape = tuple(end - begin for begin, end in groups[first:last])
    return shape in _SHAPES and not within & around


def _ends_of_cards(digits: str, ends: list[int], first: int, sums: _Sums) -> list[int]:
    """Return the groups with which a number beginning at `first` may end, the longest first."""
    begin, last_groups = ends[first], list[int]()
    if not _ISSUED.match(digits, begin):
        return last_groups
    for last in range(first + 1, len(ends)):
        end = ends[last]
        if end - begin > _LONGEST:
            break
        # Luhn: every second digit counts double, from the right, its own digits summed.
        total = sums[end % 2][end] - sums[end % 2][begin]
        if end - begin >= _SHORTEST and total % 10 == 0:
            last_groups.insert(0, last)
    return last_groups


def _sums(digits: str) -> _Sums:
    """Return the sums up to each place, for numbers that end after an even and an odd one."""
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
    while match := _IBAN.search(text, begin):
        begin = match.start() + 1  # another may begin within a wrong one
        length = _LENGTH.get(match.group(1).upper(), 0)
        places = [match.start() + m.end() for m in _LETTER.finditer(match.group())]
        if not length or len(places) < length:
            continue
        end = places[length - 1]
        written = "".join(_LETTER.findall(text[match.start() : end]))
        # The check digits: letters count from A = 10, the first four last.
        if int("".join(str(int(c, 36)) for c in written[4:] + written[:4])) % 97 == 1:
            yield match.start(), end
            begin = end


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
    """Return the exact span of a value of a kind of `core.redact`, or None if its end is uncertain.

    Text after it may belong to it, or its last characters may not.
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
    """Tell whether a domain is not joined to the next sentence: x.com.Thanks, x.de.thanks."""
    *labels, last = domain.split(".")
    if len(labels) > 1 and last[0].isupper() and labels[-1].islower():
        return False
    if len(last) == 2 or len(labels) == 1:
        return True
    is_behind_country = len(labels[-1]) == 2 and last.lower() not in _TOP_LEVEL  # except uk.com
    return not (is_behind_country or _TOP_LEVEL & {label.lower() for label in labels[1:]})


# Keys and tokens, which are never stored.


_SHORTEST_SECRET = 8  # characters of our own secrets that are looked for; shorter ones may be words
_Span = tuple[int, int]  # begin, end

_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.{0,20000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*)",
    re.S,
)
_TOKEN_LENGTH = 16
_TOKEN = re.compile(rf"[A-Za-z0-9_.~+/=-]{{{_TOKEN_LENGTH},}}")
_PREFIX = re.compile(  # of keys with an issuer's prefix, in lower case: sk-…, ghp_…, xoxb-…
    r"(?:^|[^a-z0-9])(?=(?:(?:[spr]k|gh[a-z]|github_pat|gl(?:pat|sa|[a-z]{1,3}t)|xox[a-z]|xapp"
    r"|opsc|xai|npm|pypi|rubygems|hf|gsk|r8|nvapi|pplx|shp[a-z]{2}|whsec|gocspx|dckr_[a-z]{2,4}"
    r"|do[opr]_v1|lin_api|sbp|figd|ntn|tskey|sntry[a-z]|pmak|nrak|sq0[a-z]{3}|age-secret-key"
    r")[-_]|hv[sbr]\.))"
)
_ISSUED_KEY = re.compile(
    r"(?:AKIA|ASIA|ABIA|ACCA|AIDA|AROA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|SG\.[\w-]{16,64}\.[\w-]{16,}|[0-9]{8,10}:AA[\w-]{30,}"
)
_ISSUERS = ("AKIA", "ASIA", "ABIA", "ACCA", "AIDA", "AROA", "AIza", "ya29.", "SG.", "AA")
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
# Lower-case words, one of which a text must contain to be worth searching, or the name of a key;
# "key" alone is the name of many a field.
_NAMES = (
    *("pass", "pwd", "token", "secret", "credential"),
    *("kennwort", "wachtwoord", "contrase", "senha"),
)
_NAMED_KEY = re.compile("key(?<=[-_ a-z]key)")  # begins with a word, which is found faster
_BEARER, _AUTHORIZATION = ("bearer", "basic"), ("authorization",)
_WORDS = (*_NAMES, *_BEARER, *_AUTHORIZATION)
_LAST_MARKS = ".,;:!?)]}>'\""  # after a value, not part of it
_DIGIT, _ANY_LETTER = re.compile(r"[0-9]"), re.compile(r"[A-Za-z]")
_STRONG = re.compile(r"[0-9A-Z]")  # not in ordinary words
_OBJECT = "eyJ"  # how the base64 of a JSON object begins
_TELLING = re.compile(r"[0-9A-Z:=>]")  # a text without any of these has no key


def secret_spans(text: str, ours: Collection[str]) -> list[_Span]:
    """Return the spans of secrets in a text. `ours` are the values of our own."""
    if len(text) < _SHORTEST_SECRET:
        return []
    return [*_spans(text), *_own(ours, text)]


def may_hold_secret(text: str, ours: Collection[str]) -> bool:
    """Tell whether a text, or a line of it, may hold a secret; True if unsure.

    For an ASCII text without "@"; secrets in addresses need one.
    """
    small = text.lower()
    if "-----" in text or any(map(small.__contains__, _WORDS)) or _NAMED_KEY.search(small):
        return True
    words = text.split()
    unbroken = "".join(words).lower()
    if any(map(unbroken.__contains__, _to_seek(tuple(ours)).values())):
        return True
    tokens = set(_TOKEN.findall(" ".join([word for word in words if len(word) >= _TOKEN_LENGTH])))
    # Issued keys contain one of them.
    return any(_key_in(token) >= 0 for token in tokens) or (
        any(map(" ".join(tokens).__contains__, _ISSUERS))  # cheaper
        and _ISSUED_KEY.search(text) is not None
    )


def join_overlaps(spans: Iterable[_Span]) -> list[_Span]:
    """Return spans in order, with overlapping ones joined."""
    apart: list[_Span] = []
    for begin, end in sorted(spans):
        if apart and begin < apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((begin, end))
    return apart


def _spans(text: str) -> Iterator[_Span]:
    if not _TELLING.search(text):
        return
    yield from (match.span() for match in _BLOCK.finditer(text))
    yield from (match.span() for match in _ISSUED_KEY.finditer(text))
    yield from (match.span(1) for match in _IN_ADDRESS.finditer(text))
    small = text.lower()
    for pattern, words in ((_AFTER_WORD, _BEARER), (_IN_HEADER, _AUTHORIZATION)):
        if any(map(small.__contains__, words)):
            yield from (m.span(1) for m in pattern.finditer(text) if _STRONG.search(m[1]))
    if any(map(small.__contains__, _NAMES)) or _NAMED_KEY.search(small):
        yield from (span for m in _NAMED.finditer(text) for span in _named_value(m))
    for match in _TOKEN.finditer(text):
        begin = _key_in(match[0])
        if begin >= 0:
            yield match.start() + begin, match.end()


def _named_value(named: re.Match[str]) -> Iterator[_Span]:
    """Yield the span of a value after a telling name, unless it reads as a word.

    A password may be short or a word, above all after an equals sign; in a sentence, or after
    another name, only a value unlike any word counts.
    """
    group = "bare" if named["quoted"] is None else "quoted"
    value = named[group].rstrip(_LAST_MARKS if group == "bare" else "")
    has_digit, is_strong = bool(_DIGIT.search(value)), bool(_STRONG.search(value))
    is_equated, is_password = "=" in named["sign"], bool(named["password"])
    if named["sign"].lower() in ("", "is", "ist"):
        is_long = len(value) >= (6 if is_password else 12)
        is_secret = is_long and has_digit and bool(_ANY_LETTER.search(value))
    elif is_password:
        is_secret = len(value) >= (4 if has_digit else 8 if is_strong or is_equated else 12)
    else:
        is_secret = len(value) >= (8 if is_strong else 12) and (is_strong or is_equated)
    if is_secret:
        begin = named.start(group)
        yield begin, begin + len(value)


def _key_in(token: str) -> int:
    """Return the beginning of a key in an unbroken run of characters, or −1."""
    if not _STRONG.search(token):
        return -1  # the name of a field
    prefix = _PREFIX.search(token.lower())
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


def _own(values: Collection[str], text: str) -> Iterator[_Span]:
    unbroken = _unbroken(text)
    for value, sought in _to_seek(tuple(values)).items():
        # The plain search first: it is cheap, and hardly any text holds one of our own secrets.
        if sought in unbroken:
            yield from (match.span() for match in _pattern_of(value).finditer(text))


def _unbroken(text: str) -> str:
    return "".join(text.split()).lower()


@lru_cache(maxsize=16)
def _to_seek(values: tuple[str, ...]) -> dict[str, str]:
    """Return the values long enough to search for, each with its unbroken form."""
    return {value: _unbroken(value) for value in values if len(value) >= _SHORTEST_SECRET}


@lru_cache(maxsize=16)
def _pattern_of(value: str) -> re.Pattern[str]:
    """Return a pattern for a value in any case, also broken by blanks and line ends."""
    return re.compile(r"\s{0,3}".join(map(re.escape, value)), re.I)


# A text as a reader understands it, with the position of each letter.
#
# Wide letters, digits of other scripts or in circles, other dashes, accents and invisible letters
# become what they stand for. A second reading also decodes JSON escapes, HTML entities and URL
# escapes, even within one another.


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
    """Return the readings of a text: with escapes decoded, if it has any, then unchanged.

    Both, since decoding what only looks like an escape would break its surroundings.
    """
    return (_read_undone, read_plainly) if _SPELLED.search(text) else (read_plainly,)


def read_plainly(text: str) -> Reading:
    """Return a text with each letter read as what it stands for."""
    return _fold(_as_written(text))


def _read_undone(text: str) -> Reading:
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
