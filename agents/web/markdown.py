"""An agent's answer as HTML: paragraphs, lists, tables, emphasis and code, and nothing else.

A model may have copied from an outsider: so nothing in it can be followed, loaded or run. A link
or a picture is its text with the address beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agents.core.actions import is_hidden

_DEEPEST = 30  # of lists in lists: below it the parser leaves text out
_PARSER = MarkdownIt("zero", {"maxNesting": _DEEPEST}).enable(
    [
        *("list", "table", "fence", "code", "heading", "lheading", "newline", "escape"),
        *("backticks", "emphasis", "link", "image", "entity"),
    ]
)
_TAGS = {"p", "ul", "ol", "li", "thead", "tbody", "tr", "th", "td", "em", "strong"}
_REPLACED = "\N{REPLACEMENT CHARACTER}"


def as_html(text: str) -> SafeString:
    """Return a text as HTML; one that is nested too deeply as it is written."""
    tokens = _PARSER.parse(text)
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        return mark_safe(f'<p class="said">{_escaped(text)}</p>')  # noqa: S308 - escaped
    return mark_safe("".join(_html(tokens)))  # noqa: S308 - each text is escaped


def as_line(text: str, most: int) -> str:
    """Return the beginning of a text without its marks, on one line."""
    shown = _texts(_PARSER.parse(text[: 2 * most]))
    return _shown(" ".join(" ".join(shown).split()))


def _html(tokens: Iterable[Token]) -> Iterator[str]:
    addresses: list[str] = []
    tables = 0
    for token in tokens:
        end = "/" if token.nesting < 0 else ""
        if token.hidden:  # of a list without blank lines
            continue
        if token.type == "inline":
            yield from _html(token.children or ())
        elif token.type in ("softbreak", "hardbreak"):
            yield "<br>"
        elif token.type == "code_inline":
            yield f"<code>{_escaped(token.content)}</code>"
        elif token.type in ("fence", "code_block"):
            yield f"<pre><code>{_escaped(token.content)}</code></pre>"
        elif token.type == "image":
            yield _escaped(token.content) + _address(str(token.attrs.get("src", "")))
        elif token.type == "link_open":
            addresses.append(str(token.attrs.get("href", "")))
        elif token.type == "link_close":
            yield _address(addresses.pop())
        elif token.type.startswith("heading_"):
            yield "</strong></p>" if end else "<p><strong>"
        elif token.tag == "table":
            tables += not end
            place = f'<div class="scroll-x" tabindex="0" role="region" aria-label="Table {tables}">'
            yield "</table></div>" if end else f'{place}<table class="table">'
        elif token.tag in _TAGS:
            first = token.attrs.get("start")  # of a numbered list
            yield f"<{end}{token.tag}{f' start={int(first)}' if first else ''}>"
        else:
            yield _escaped(token.content)


def _texts(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            yield "".join(_texts(token.children or ()))
        else:
            yield " " if token.type.endswith("break") else token.content


def _address(given: str) -> str:
    """Return where a link goes, in brackets; one without a host leads nowhere."""
    return f" ({_escaped(given)})" if "//" in given or given.startswith("mailto:") else ""


def _escaped(text: str) -> str:
    return str(escape(_shown(text)))


def _shown(text: str) -> str:
    """Return a text without characters that control the display: an entity may stand for one."""
    return "".join(_REPLACED if is_hidden(char) else char for char in text)
