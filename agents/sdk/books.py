"""The rows that calls leave in a desk's own books, by which verification proves what was done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Booked:
    """A row that a call left in the desk's books."""

    key: str  # of the call
    args: Mapping[str, Any]  # the call's arguments in the row, typed
    book: int
    is_done: bool = True  # False: only held, or released
    resource: str = ""  # that the row has, if no argument of the call names it


@dataclass(frozen=True)
class Books:
    """Where calls of a tool leave rows: a query, how a row is read, and the column of its key."""

    rows: Any  # a Django queryset
    read: Callable[[Any], Booked]
    key: str = "key"

    def of_keys(self, keys: Collection[str]) -> Iterator[Booked]:
        """Yield the rows of these keys."""
        return map(self.read, self.rows.filter(**{f"{self.key}__in": keys}).order_by("pk"))
