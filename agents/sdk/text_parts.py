"""What a text holds that somebody may act on: links, addresses, account numbers, amounts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agents.core.finders import addresses, exact_place, ibans
from agents.core.money import BadAmount, exponent
from agents.core.redact import EMAILS, IBANS
from agents.sdk.fact_sources import GROUP, SIGNS, Origin, amounts_in
from agents.sdk.values import Money

LINK, ADDRESS, ACCOUNT, AMOUNT = KINDS = ("link", "address", "account", "amount")
_LINK = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`|]{1,2000}"
    r"|(?<![\w@./-])(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}(?:/[^\s<>\"'`|]{0,2000})?(?![\w@])",
    re.IGNORECASE,
)
_CODE = re.compile(r"\b[A-Z]{3}\b")
_MOST = 200  # parts of one text


@dataclass(frozen=True)
class TextPart:
    """A part of a text: one of KINDS, as the text writes it, and who named it."""

    kind: str
    text: str
    origin: Origin


def find_parts(text: str) -> list[tuple[str, str]]:
    """Return kind and text of each part, each once; what stands in a link is no part of its own."""
    return list(dict.fromkeys(_find(text)))[:_MOST]


def _find(text: str) -> Iterator[tuple[str, str]]:
    for kind, masked, spans in (
        (ADDRESS, EMAILS, [*addresses(text, ())]),
        (ACCOUNT, IBANS, [*ibans(text)]),
    ):
        for span in spans:
            begin, end = exact_place(masked, text, *span) or span
            yield kind, text[begin:end].strip()
            text = text[:begin] + " " * (end - begin) + text[end:]
    yield from ((LINK, link[0].rstrip(".,;:!?)]}")) for link in _LINK.finditer(text))
    rest = _LINK.sub(lambda link: " " * len(link[0]), text)
    codes = [code for code in dict.fromkeys(_CODE.findall(rest)) if _is_currency(code)]
    for code in codes or [*SIGNS][:1]:  # the signs of others are found with any
        yield from ((AMOUNT, amount) for amount in amounts_in(rest, code, most=_MOST))


def _is_currency(code: str) -> bool:
    try:
        return exponent(code) >= 0
    except BadAmount:
        return False


def other_names(kind: str, text: str) -> list[Any]:
    """Return what else names the same part: an amount's money, the host of a link."""
    if kind == LINK:
        bare = re.sub(r"^[a-z][a-z0-9+.-]*://(?:www\.)?", "", text, flags=re.IGNORECASE)
        return [bare, re.split(r"[/?#]", bare)[0]]
    if kind != AMOUNT:
        return []
    signs = (code for code, (sign, *_) in SIGNS.items() if sign in text)
    codes = [*_CODE.findall(text), *signs]
    number = re.sub(r"[^\d.,]", "", text)
    whole, point, part = number.rpartition(max(".,", key=number.rfind))
    if not point or len(part) == GROUP:  # every mark separates thousands
        whole, part = number, ""
    try:
        value = Decimal(f"{re.sub('[.,]', '', whole)}.{part or 0}")
        return [Money(int(value.scaleb(exponent(codes[0]))), codes[0])]
    except (BadAmount, IndexError):
        return []
