"""What a desk's own books hold of its calls: with it the record proves what really was done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Booked:
    """A row that a call left in the desk's books."""

    key: str  # of the call
    args: Mapping[str, Any]  # those of the call that the row holds, typed
    book: int
    is_done: bool = True  # False: it is only held, or was given up


# Returns the rows of these keys; of None: every row that calls can have left.
ReadBooks: TypeAlias = Callable[[Collection[str] | None], Iterable[Booked]]
