"""Mask card numbers, IBANs and email addresses by policy, and secrets always.

Text is masked before it is stored, logged or sent, in time proportional to its length: every
repetition is bounded. It is searched as a reader understands it, since the escapes in a model's
JSON are decoded after the masking.

For each kind, a policy keeps the value, removes it, or replaces it by a name. A value whose end is
uncertain is removed.
"""

import hmac
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias

from agents.core.finders import (
    NUMBERED,
    Reading,
    addresses,
    cards,
    exact_place,
    ibans,
    join_overlaps,
    may_hold_secret,
    secret_spans,
    undone,
    ways_to_read,
)
from agents.core.requests import Json

CARDS, IBANS, EMAILS = KINDS = ("card_numbers", "ibans", "emails")
_KEY_MASK = "[secret]"  # of keys and tokens; no policy keeps these
OFF, NAME, GONE = TREATMENTS = ("off", "name", "gone")  # of a kind, by policy
_MASKS = {CARDS: "[card number]", IBANS: "[IBAN]", EMAILS: "[e-mail]"}

# Also as a model may spell one: [email], [Card-Number].
ANY_MASK = re.compile(r"\[\s?(?:secret|card[ -]?numbers?|iban|e-?mail)\s?\]", re.I)
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
_LONGEST_NUMBER = 80  # characters
# Characters around a number in JSON; in an array, those before it only at its beginning.
_BEFORE, _NEXT = re.compile(r"(?:\"\s{0,9}:|[\[,])\s{0,40}\Z"), re.compile(r"\s{0,40}[,}\]]")
_ESCAPE = re.compile(r"\\[bfnrt]")
_TELLING = re.compile(r"[^\W_A-Za-z]|@")  # a text without either has nothing personal
_ODD = re.compile(r"[^\t\n\r -$'-?A-\[\]-~]")  # may be read as another letter, or is in an address
_LEAST = 6  # characters of the shortest that is masked: a@b.cd
_Place: TypeAlias = tuple[int, int]
_Find: TypeAlias = Callable[[str], Iterable[_Place]]


class Namer(Protocol):
    """Gives names to values: see `Pseudonyms`."""

    def name(self, kind: str, value: str) -> str: ...

    def hide(self, text: str) -> str:
        """Return a text of the same length with known names blanked out."""


class _Finder(NamedTuple):
    """The finder of a kind of value, and the mask for values without a name."""

    kind: str
    find: _Find
    mask: str


@dataclass(frozen=True)
class _Masker:
    finders: Sequence[_Finder]
    namer: Namer | None
    named: Collection[str]  # the kinds that get a name
    ours: Collection[str]


def mask(
    text: str, kinds: Collection[str], *, kept: Collection[str] = (), ours: Collection[str] = ()
) -> str:
    """Return `text` without secrets and personal data of these kinds.

    Addresses in `kept`, in lower case, stay. `ours` are the values of our own secrets.
    """
    return _mask(text, _Masker(_finders(tuple(kinds), tuple(kept), tuple(ours)), None, (), ours))


def mask_json(
    value: Json,
    redaction: Mapping[str, str],
    *,
    kept: Collection[str] = (),
    ours: Collection[str] = (),
    namer: Namer | None = None,
) -> Json:
    """Mask every text in a JSON value, keys included, by the treatments in `redaction`.

    Without a `namer`, values that would get a name are removed. A value with nothing to mask is
    returned itself: most consist of keys, codes and sentences of rules.
    """
    if not _may_hold(texts_of(value), ours):
        return value
    kinds = tuple(kind for kind, treatment in redaction.items() if treatment != OFF)
    named = [kind for kind in kinds if redaction[kind] == NAME] if namer else []
    finders = _finders(kinds, tuple(kept), tuple(ours))
    masker = _Masker(finders, namer, named, ours)
    return _map_texts(value, lambda text: _mask(text, masker))


def masks_in(value: Json) -> Iterator[tuple[str, str]]:
    """Yield each mask in a JSON value, keys included, after the name of its field."""
    if "[" in texts_of(value):
        for place, text in texts_in(value):
            yield from ((place, mask) for mask in ANY_MASK.findall(text))


def texts_in(value: Json, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in a JSON value, keys included, after the name of its field."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield place or name, name
            yield from texts_in(item, place or name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item, place)


def texts_of(value: Json) -> str:
    """Return all texts in a JSON value, keys included, one per line, for a single search."""
    texts: list[str] = []
    parts = [value]
    for part in parts:  # grows meanwhile
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            texts += part
            parts += part.values()
        elif isinstance(part, (list, tuple)):
            parts += part
    return "\n".join(texts)


def without_masks(text: str) -> str:
    """Return a text without names and masks: their values are unknown."""
    return ANY_MASK.sub(" ", text)


@lru_cache(32)
def _finders(kinds: tuple[str, ...], kept: tuple[str, ...], ours: tuple[str, ...]) -> list[_Finder]:
    """Return the finders of secrets, which come first, and of these kinds of personal data."""
    personal: dict[str, _Find] = {
        IBANS: ibans,  # before card numbers, which their digits may look like
        CARDS: cards,
        EMAILS: lambda read: addresses(read, kept),
    }
    return [
        _Finder("secrets", lambda read: secret_spans(read, ours), _KEY_MASK),
        *(_Finder(kind, find, _MASKS[kind]) for kind, find in personal.items() if kind in kinds),
    ]


def _mask(text: str, masker: _Masker) -> str:
    if not _may_hold(text, masker.ours):
        return text
    for read in ways_to_read(text):
        reading = _read(read, text, masker)
        finders = masker.finders
        for finder in finders if _TELLING.search(reading.text) else finders[:1]:
            masked = _replace_found(text, reading, finder, masker)
            if masked is not text:
                text, reading = masked, _read(read, masked, masker)
    return text


def _may_hold(text: str, ours: Collection[str]) -> bool:
    """Tell whether a text, or a line of it, may hold something to mask; True if unsure.

    A few plain searches for what each finder needs. Letters with another reading count as unsure,
    and a hidden name only removes text.
    """
    return len(text) >= _LEAST and (
        _ODD.search(text) is not None
        or NUMBERED.search(text) is not None
        or may_hold_secret(text, ours)
    )


def _read(read: Callable[[str], Reading], text: str, masker: _Masker) -> Reading:
    """Read a text; a name in it is never a value, whatever its letters look like."""
    reading = read(text)
    hidden = masker.namer.hide(reading.text) if masker.namer else reading.text
    return reading if hidden is reading.text else replace(reading, text=hidden)


def _replace_found(text: str, reading: Reading, finder: _Finder, masker: _Masker) -> str:
    """Return `text` with what is found in its reading replaced."""
    spans = join_overlaps(finder.find(reading.text))
    if not spans:
        return text
    parts, done, array = [], 0, text.find("[")
    for begin, end in spans:
        instead = finder.mask
        if masker.namer and finder.kind in masker.named:
            place = exact_place(finder.kind, reading.text, begin, end)
            if place and (value := _value_at(finder.kind, text, reading, *place)):
                instead, (begin, end) = masker.namer.name(finder.kind, value), place
        start, stop = reading.begins[begin], reading.ends[end - 1]
        if number := _json_number(text, start, stop, is_in_array=0 <= array < start):
            start, stop = number
        if stop <= done:
            continue
        parts += [text[done:start], f'"{instead}"' if number else instead]
        done = stop
    return "".join([*parts, text[done:]])


def _value_at(kind: str, text: str, reading: Reading, begin: int, end: int) -> str:
    """Return the value at a place in its exact form; "" if that is uncertain.

    Numbers lose their separators. An address with converted letters, or within a URL's escapes, may
    be another. So may one whose first letter was read as an escape outside JSON: in
    `WORK\tom@x.com`.
    """
    value, start = reading.text[begin:end], reading.begins[begin]
    if kind != EMAILS:
        return re.sub("[^0-9A-Za-z]", "", value).upper()
    if _ESCAPE.match(text, max(start - 2, 0), start) and text.find("{", 0, start) < 0:
        return ""
    written = text[start : reading.ends[end - 1]]
    return value if "%" not in written and undone(written) == value else ""


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


# Names that stand for masked values: one bare word for one value, which reveals nothing about it.
#
# `EMAIL-7Q2MK3XW9T` is 50 bits of a keyed digest of kind, value and workspace. So a value has the
# same name everywhere, and comparing names compares values. (30 bits would give two of 40,000
# values one name.) It has no brackets or blanks, because a small model drops them and would then
# name something else.


_WORDS = {CARDS: "CARDNO", EMAILS: "EMAIL", IBANS: "IBAN"}
_KIND = "|".join(_WORDS.values())
_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's alphabet avoids letters that look alike
_LENGTH = 10  # letters, of 5 bits each
# Also after an escape in a text of JSON, whose last letter is not part of the text.
_BEGIN = r"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))"
PSEUDONYM = re.compile(rf"{_BEGIN}(?:{_KIND})-[{_LETTERS}]{{{_LENGTH}}}(?![0-9A-Za-z])")
# Text that only looks like a name: a letter no name has, another case or dash, letters too many or
# too few, or joined to another word. A word in small letters, such as email-newsletter, does not;
# one in capitals does, as 3 of 100 names have no digit.
_ALIKE = re.compile(
    rf"(?:{_KIND})-[{_LETTERS}]{{{_LENGTH}}}"
    rf"|{_BEGIN}(?:(?:{_KIND})-(?:[0-9A-Z]{{5}}-?[0-9A-Z]{{5}}|[{_LETTERS}]{{8,12}})"
    rf"|(?i:e-?mail|{_KIND})[-_\u2010-\u2015\u2212]"
    r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[0-9A-Za-z]{8,12})(?![0-9A-Za-z])"
)
_SUSPECT = re.compile(r"[-_\[\u2010-\u2015\u2212]")  # in each mask and in all that look alike
_BETWEEN = r"(?:[\W_]|\\u[0-9a-f]{4})"  # a mark, or one escaped in a text of JSON
_NEARLY = re.compile(  # a name as a model may spell it, with what it puts around it
    rf"(?P<open>\[\s?|(?<=\")[<({{`])?{_BEGIN}"
    rf"(?:(?:e-?mail|{_KIND}){_BETWEEN}{{1,3}}|(?<!email.)(?<!e-mail.)(?<!iban.)(?<!cardno.))"
    rf"(?P<one>[{_LETTERS}]{{5}}){_BETWEEN}?(?P<two>[{_LETTERS}]{{5}})(?![0-9A-Za-z])"
    rf"(?:@[\w.-]{{1,100}})?(?P<beside> \([\w.-]{{1,100}}\))?(?P<close>\s?\]|[>)}}`](?=\\?\"))?",
    re.I,
)
Naming: TypeAlias = Callable[[str, str], str]  # of a kind and a value


def canonical(kind: str, value: str) -> str:
    """Return the common form of all spellings of a value; lookalike letters differ."""
    return value.lower() if kind == EMAILS else value


def name_of(key: str, workspace: int, kind: str, value: str) -> str:
    """Return the name of a value in a workspace, under this key."""
    message = f"{workspace}:{kind}:{canonical(kind, value)}".encode("utf-8", "surrogatepass")
    bits = int.from_bytes(hmac.digest(key.encode(), message, "sha256")[:8], "big")
    code = "".join(_LETTERS[bits >> 5 * place & 31] for place in range(_LENGTH))
    return f"{_WORDS[kind]}-{code}"


class Pseudonyms:
    """The names that one run may use, with their values, in memory.

    `values` are known at the start; `taken` are the new ones by name, to be stored.
    """

    def __init__(self, naming: Naming, values: Mapping[str, str] | None = None) -> None:
        self._naming = naming
        self.values: dict[str, str] = dict(values or {})
        self.taken: dict[str, tuple[str, str]] = {}

    def name(self, kind: str, value: str) -> str:
        """Return the name of a value, and let the run use it from now on.

        Raises ValueError if another value has that name: one would be used instead of the other.
        """
        name = self._naming(kind, value)
        known = self.values.setdefault(name, value)
        if canonical(kind, known) != canonical(kind, value):
            raise ValueError("two values have the same name")
        if known is value:
            self.taken.setdefault(name, (kind, value))
        return name

    def hide(self, text: str) -> str:
        """Return a text of the same length with its own names blanked out."""
        if "-" not in text:
            return text
        return PSEUDONYM.sub(lambda m: "\n" * len(m[0]) if m[0] in self.values else m[0], text)

    def resolve(self, value: Json) -> Json:
        """Return a JSON value with its own names replaced by their values, keys included."""
        if not self.values:
            return value
        return _map_texts(value, self._resolve_text)

    def _resolve_text(self, text: str) -> str:
        return PSEUDONYM.sub(lambda m: self.values.get(m[0], m[0]), text) if "-" in text else text

    def with_domains(self, value: Json) -> Json:
        """Return a JSON value that adds the mail server to each own address, for a model.

        `heal` removes that from its replies.
        """

        def beside(match: re.Match[str]) -> str:
            _, _, domain = self.values.get(match[0], "").partition("@")
            return f"{match[0]} ({domain})" if domain else match[0]

        return _map_texts(value, lambda text: PSEUDONYM.sub(beside, text)) if self.values else value

    def heal(self, text: str) -> str:
        """Return a model's reply with nearly correct names corrected."""
        codes = {name[-_LENGTH:]: name for name in list(self.values)}

        def mend(match: re.Match[str]) -> str:
            name = codes.get((match["one"] + match["two"]).upper())
            if name is None:
                return match[0]
            begun, ended = match["open"] or "", match["close"] or ""
            beside = match["beside"] or ""
            if beside[2:-1] == self.values[name].rpartition("@")[2]:
                beside = ""
            mended = f"{name}{beside}"
            return mended if bool(begun) == bool(ended) else f"{begun}{mended}{ended}"

        return _NEARLY.sub(mend, text) if codes else text

    def unknown_in(self, value: Json) -> Iterator[tuple[str, str]]:
        """Yield masks, foreign names and lookalikes of names, each after its field."""
        if not any(self._unknown(texts_of(value))):
            return
        for place, text in texts_in(value):
            yield from ((place, unknown) for unknown in self._unknown(text))

    def _unknown(self, text: str) -> Iterator[str]:
        hidden = self.hide(text)
        bare = hidden.upper()  # an own code left over is in no name
        yield from (code for name in list(self.values) if (code := name[-_LENGTH:]) in bare)
        if _SUSPECT.search(text):
            yield from ANY_MASK.findall(hidden)
            yield from _ALIKE.findall(hidden)


def names_in(value: Json) -> Iterator[str]:
    """Yield all names of any run in a JSON value."""
    if has_name(value):
        for _, text in texts_in(value):
            yield from PSEUDONYM.findall(text)


def has_name(value: Json) -> bool:
    """Tell whether a JSON value has a name of any run."""
    texts = texts_of(value)
    is_likely = any(f"{word}-" in texts for word in _WORDS.values())  # quicker than to read it all
    return is_likely and PSEUDONYM.search(texts) is not None


class _Kinds:
    """Replaces names by their kind alone."""

    def name(self, kind: str, value: str) -> str:
        return _MASKS[kind]

    def hide(self, text: str) -> str:
        return text


def without_values(text: str) -> str:
    """Return a text without values, whether it has names or values."""
    masks = {word: _MASKS[kind] for kind, word in _WORDS.items()}
    kept = mask_json(text, dict.fromkeys(KINDS, NAME), namer=_Kinds())
    return PSEUDONYM.sub(lambda match: masks[match[0].partition("-")[0]], kept)


def _map_texts(value: Json, change: Callable[[str], str]) -> Json:
    """Return a JSON value with each text changed, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_map_texts(item, change) for item in value]
    if isinstance(value, dict):
        changed: dict[str, Json] = {}
        seen = Counter[str]()
        for name, item in value.items():
            key = change(name)
            seen[key] += 1  # two addresses with one mask stay two
            changed[f"{key} ({seen[key]})" if seen[key] > 1 else key] = _map_texts(item, change)
        return changed
    return value
