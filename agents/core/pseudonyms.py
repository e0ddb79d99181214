"""Names that stand for masked values: one bare word for one value, which tells nothing about it.

`EMAIL-7Q2MK3XW9T` is 50 bits of a keyed digest of kind, value and workspace, so a value has the
same name wherever it stands, and everything that compares values compares their names. (30 bits
would give two of 40,000 values one name.) There are no brackets and no blanks in it, because a
small model drops them and would then name something else.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from agents.core.redact import (
    ANY_MASK,
    CARDS,
    EMAILS,
    IBANS,
    KINDS,
    MASKS,
    mask_json,
    texts_in,
    texts_of,
)
from agents.core.redact import NAME as BY_NAME
from agents.core.requests import Json

_WORDS = {CARDS: "CARDNO", EMAILS: "EMAIL", IBANS: "IBAN"}
_KIND = "|".join(_WORDS.values())
_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: none is easily taken for another
_LENGTH = 10  # letters, of 5 bits each
# Also behind an escape in a text of JSON, whose last letter is none of the text.
_BEGIN = r"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))"
NAME = re.compile(rf"{_BEGIN}(?:{_KIND})-[{_LETTERS}]{{{_LENGTH}}}(?![0-9A-Za-z])")
# What only looks like one: with a letter that none has, of another case, with another dash, with
# some letters too many or too few, or grown together with another word. A word in small letters,
# such as email-newsletter, does not; one in capitals does, as 3 of 100 names have no digit.
_ALIKE = re.compile(
    rf"(?:{_KIND})-[{_LETTERS}]{{{_LENGTH}}}"
    rf"|{_BEGIN}(?:(?:{_KIND})-(?:[0-9A-Z]{{5}}-?[0-9A-Z]{{5}}|[{_LETTERS}]{{8,12}})"
    rf"|(?i:e-?mail|{_KIND})[-_\u2010-\u2015\u2212]"
    r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[0-9A-Za-z]{8,12})(?![0-9A-Za-z])"
)
_SUSPECT = re.compile(r"[-_\[\u2010-\u2015\u2212]")  # in each mask and in all that is alike
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
    """Return what all spellings of one value share; letters that only look alike do not."""
    return value.lower() if kind == EMAILS else value


def name_of(key: str, workspace: int, kind: str, value: str) -> str:
    """Return the name of a value in a workspace, under this key."""
    told = f"{workspace}:{kind}:{canonical(kind, value)}".encode("utf-8", "surrogatepass")
    bits = int.from_bytes(hmac.digest(key.encode(), told, "sha256")[:8], "big")
    code = "".join(_LETTERS[bits >> 5 * place & 31] for place in range(_LENGTH))
    return f"{_WORDS[kind]}-{code}"


class Pseudonyms:
    """The names that one run may use, and what they stand for. In memory: it reads no database.

    `values` are those it knows already; `taken` are those that came since, by name, to be kept.
    """

    def __init__(self, naming: Naming, values: Mapping[str, str] | None = None) -> None:
        self._naming = naming
        self.values: dict[str, str] = dict(values or {})
        self.taken: dict[str, tuple[str, str]] = {}

    def name(self, kind: str, value: str) -> str:
        """Return the name of a value, and take the value in: the run may use it from now on.

        Raises ValueError if another value has that name: one of the two would be carried out as
        the other.
        """
        name = self._naming(kind, value)
        known = self.values.setdefault(name, value)
        if canonical(kind, known) != canonical(kind, value):
            raise ValueError("two values have the same name")
        if known is value:
            self.taken.setdefault(name, (kind, value))
        return name

    def hide(self, text: str) -> str:
        """Return a text with its own names blanked out, as long as it was."""
        if "-" not in text:
            return text
        return NAME.sub(lambda m: "\n" * len(m[0]) if m[0] in self.values else m[0], text)

    def resolve(self, value: Json) -> Json:
        """Return a JSON value with the values of its own names in their place, keys included."""
        if not self.values:
            return value
        return map_texts(value, self._resolve_text)

    def _resolve_text(self, text: str) -> str:
        return NAME.sub(lambda m: self.values.get(m[0], m[0]), text) if "-" in text else text

    def with_domains(self, value: Json) -> Json:
        """Return a JSON value in which a model reads of each own address whose mail server it has.

        `heal` takes that back out of what it replies.
        """

        def beside(found: re.Match[str]) -> str:
            _, _, domain = self.values.get(found[0], "").partition("@")
            return f"{found[0]} ({domain})" if domain else found[0]

        return map_texts(value, lambda text: NAME.sub(beside, text)) if self.values else value

    def heal(self, text: str) -> str:
        """Return a model's reply with the names that it nearly spelled as they are spelled."""
        codes = {name[-_LENGTH:]: name for name in list(self.values)}

        def mend(found: re.Match[str]) -> str:
            name = codes.get((found["one"] + found["two"]).upper())
            if name is None:
                return found[0]
            begun, ended = found["open"] or "", found["close"] or ""
            beside = found["beside"] or ""
            if beside[2:-1] == self.values[name].rpartition("@")[2]:
                beside = ""
            mended = f"{name}{beside}"
            return mended if bool(begun) == bool(ended) else f"{begun}{mended}{ended}"

        return _NEARLY.sub(mend, text) if codes else text

    def unknown_in(self, value: Json) -> Iterator[tuple[str, str]]:
        """Yield masks, foreign names and what looks like a name, after the field each stands in."""
        if not any(self._unknown(texts_of(value))):
            return
        for place, text in texts_in(value):
            yield from ((place, found) for found in self._unknown(text))

    def _unknown(self, text: str) -> Iterator[str]:
        hidden = self.hide(text)
        bare = hidden.upper()  # an own code that is left stands in no name
        yield from (code for name in list(self.values) if (code := name[-_LENGTH:]) in bare)
        if _SUSPECT.search(text):
            yield from ANY_MASK.findall(hidden)
            yield from _ALIKE.findall(hidden)


def names_in(value: Json) -> Iterator[str]:
    """Yield the names, of whatever run, that stand in a JSON value."""
    if has_name(value):
        for _, text in texts_in(value):
            yield from NAME.findall(text)


def has_name(value: Json) -> bool:
    """Tell whether a name, of whatever run, stands in a JSON value."""
    texts = texts_of(value)
    return "-" in texts and NAME.search(texts) is not None


class _Kinds:
    """Names that say no more than a kind."""

    def name(self, kind: str, value: str) -> str:
        return MASKS[kind]

    def hide(self, text: str) -> str:
        return text


def without_values(text: str) -> str:
    """Return a text as it would be if every value were gone, whether it holds names or values."""
    masks = {word: MASKS[kind] for kind, word in _WORDS.items()}
    kept = mask_json(text, dict.fromkeys(KINDS, BY_NAME), namer=_Kinds())
    return NAME.sub(lambda found: masks[found[0].partition("-")[0]], kept)


def map_texts(value: Json, change: Callable[[str], str]) -> Json:
    """Return a JSON value with each text changed, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_texts(item, change) for item in value]
    if isinstance(value, dict):
        return {change(name): map_texts(item, change) for name, item in value.items()}
    return value
