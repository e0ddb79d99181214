"""Evidence for a card as data, without markup.

It is stored with the review, with the values of that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agents.core.requests import Json
from agents.sdk.values import show


@dataclass(frozen=True)
class Fact:
    """A labelled value."""

    label: str
    value: Any


@dataclass(frozen=True)
class Table:
    """Rows under their columns."""

    label: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Link:
    """Where a person can look it up: http or https."""

    label: str
    address: str


@dataclass(frozen=True)
class Quote:
    """An outsider's text, shown as theirs."""

    label: str
    text: str


Evidence: TypeAlias = Fact | Table | Link | Quote


def write_evidence(evidence: Sequence[Evidence]) -> list[Json]:
    """Return evidence as stored with a review. Raises TypeError if it is not evidence."""
    return [_as_json(item) for item in evidence]


def _as_json(item: Evidence) -> Json:
    match item:
        case Fact(label, value):
            return {"kind": "fact", "label": label, "value": show(value)}
        case Table(label, columns, rows):
            shown = [[show(cell) for cell in row] for row in rows]
            return {"kind": "table", "label": label, "columns": list(columns), "rows": shown}
        case Link(label, address):
            if not address.startswith(("https://", "http://")):
                raise TypeError(f"{address!r} is no address of a page")
            return {"kind": "link", "label": label, "address": address}
        case Quote(label, text):
            return {"kind": "quote", "label": label, "text": text}
        case _:
            raise TypeError(f"{item!r} is no evidence: use Fact, Table, Link or Quote")
