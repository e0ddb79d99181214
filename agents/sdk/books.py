"""The rows that calls leave in a desk's own books, by which verification proves what was done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CHUNK = 500  # rows in memory at once


@dataclass(frozen=True)
class Booked:
    """A row that a call left in the desk's books."""

    key: str  # of the call
    args: Mapping[str, Any]  # the call's arguments in the row, typed
    book: int
    is_done: bool = True  # False: only held, or released


@dataclass(frozen=True)
class Books:
    """Where calls of a tool leave rows: a query, how a row is read, and the column of its key."""

    rows: Any  # a Django queryset
    read: Callable[[Any], Booked]
    key: str = "key"

    def of_keys(self, keys: Collection[str] | None) -> Iterator[Booked]:
        """Yield the rows of these keys; for None, every row that calls can have left."""
        some = self.rows.all() if keys is None else self.rows.filter(**{f"{self.key}__in": keys})
        return map(self.read, some.order_by("pk").iterator(CHUNK))
