"""What a text holds that somebody may act on: links, addresses, account numbers, amounts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agents.core.finders import addresses, exact_place, ibans
from agents.core.redact import EMAILS, IBANS
from agents.sdk.amounts import read_amounts
from agents.sdk.fact_sources import Origin

LINK, ADDRESS, ACCOUNT, AMOUNT = KINDS = ("link", "address", "account", "amount")
# As far as a browser may read it: who stands before an @ is not where a link goes. It ends where
# the next one begins.
_LINK = re.compile(
    r"(?:(?:[a-z][a-z0-9+.-]{1,20}:|(?<!\w))//(?=[\w\[])|www\.)"
    r"(?:(?!\]\(|https?://)[^\s<>\"]){1,2000}",
    re.IGNORECASE,
)
_BARE_LINK = re.compile(
    r"(?<![\w@./-])(?:[\w-]{1,63}\.){1,50}(?:xn--[a-z0-9-]{1,59}|[^\W\d_]{2,24})"
    r"(?:/[^\s<>\"]{0,2000})?(?![\w@])",
    re.IGNORECASE,
)
_AFTER_LINK = ".,;:!?)]}'`|*"
_MOST = 400  # parts of one text: no honest one of 4,000 characters has more


@dataclass(frozen=True)
class TextPart:
    """A part of a text: one of KINDS, as the text writes it, and who named it."""

    kind: str
    text: str
    origin: Origin


def find_parts(text: str) -> list[tuple[str, str]]:
    """Return kind and text of each part, each once.

    Addresses and account numbers are parts of their own in a link too. Raises ValueError for more
    than can be looked at, so that none is hidden behind others.
    """
    found = list(dict.fromkeys(_find(text)))
    if len(found) > _MOST:
        raise ValueError(f"more than {_MOST} links, addresses, account numbers and amounts")
    return found


def _find(text: str) -> Iterator[tuple[str, str]]:
    links = [link[0] for link in _LINK.finditer(text)]
    rest = _LINK.sub(_blank, text)  # without links
    for kind, masked, spans in (
        (ADDRESS, EMAILS, [*addresses(text, ())]),
        (ACCOUNT, IBANS, [*ibans(text)]),
    ):
        for span in spans:
            begin, end = exact_place(masked, text, *span) or span
            yield kind, text[begin:end].strip()
            text = text[:begin] + " " * (end - begin) + text[end:]
    links += [link[0] for link in _BARE_LINK.finditer(_LINK.sub(_blank, text))]
    yield from ((LINK, link.rstrip(_AFTER_LINK)) for link in links)
    yield from ((AMOUNT, one.text) for one in read_amounts(rest) if one.codes != {"?"})


def _blank(found: re.Match[str]) -> str:
    return "|" * len(found[0])  # across which no number finds a currency


def other_names(kind: str, text: str) -> list[Any]:
    """Return what else names the same part: an amount's money, the host of a link."""
    if kind == LINK:
        bare = re.sub(r"^(?:(?:[a-z][a-z0-9+.-]*:)?//)?(?:www\.)?", "", text, flags=re.IGNORECASE)
        host = re.split(r"[/?#\\]", bare)[0].rpartition("@")[2].partition(":")[0]
        return [one for one in (bare, host) if one]
    amounts = read_amounts(text) if kind == AMOUNT else ()
    return [one.money for one in amounts if one.money]
