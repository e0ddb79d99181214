"""What a desk's own books say at this moment, shown beside a request and kept nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class HeldRequest:
    """A request that a person reads."""

    subject: str  # the key of what its run is about; ""
    label: str  # its name
    book: int
    at: datetime
    key: str = ""  # of the call that came of it, or that it asks about; "": none
    is_lost: bool = False  # it asks whether that call took effect
    is_open: bool = True
    attempts: int = 1  # at its step
    is_demo: bool = False  # its run has books of its own
    resource: str = ""  # what its call takes from, as far as that was judged
    facts: Any = None  # of its review, which was made at `asked_at`
    asked_at: datetime | None = None


@dataclass(frozen=True)
class Section:
    """A section of a card: Fact, Table, Link, Quote under a title."""

    title: str
    items: Sequence[Any]
    note: str = ""


@dataclass(frozen=True)
class Beside:
    """The present state of a desk's own books, for the reader of a request."""

    name: str = ""  # what people call whom it is about; "": nobody knows
    note: str = ""  # a line under the headline
    sections: Sequence[Section] = ()
    resource: str = ""  # that the amount is taken from, where the request does not name it
    left_minor: int | None = None  # of what the amount is taken from; None: it has no measure
