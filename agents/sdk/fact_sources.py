"""The sources of facts: the ledger for past calls, and the run for the origin of a value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from agents.sdk.values import Money, show

By: TypeAlias = Literal["subject", "resource", "launcher", "workspace"]
GROUP = 3  # digits between two separators of thousands
_SIGNS = {"EUR": ("€", "euros", "euro"), "USD": ("$", "dollars"), "GBP": ("£", "pounds")}


class Origin(StrEnum):
    """Who named a value of a call, the most trusted first."""

    GOAL = "goal"  # the run's launcher
    PERSON = "person"  # a person who decided
    OUTSIDE = "outside"  # only a text of outsiders
    NOBODY = "nobody"  # made up or derived by the agent

    @property
    def is_of_people(self) -> bool:
        """Tell whether one of our own people named it."""
        return self in (Origin.GOAL, Origin.PERSON)

    @property
    def words(self) -> str:
        """Return it as the agent of a sentence: it was named by …"""
        return _WORDS[self]


_WORDS = {
    Origin.GOAL: "whoever launched the run",
    Origin.PERSON: "whoever decided",
    Origin.OUTSIDE: "an outside text alone",
    Origin.NOBODY: "the agent alone",
}


class Asked(Protocol):
    """The queries for facts about one run and the action under review.

    Intended calls and those of unknown outcome count as done. `days` go back from now;
    `unattended` leaves out approved calls; `like` are arguments that the calls had.
    """

    @property
    def tool(self) -> str:
        """Return the tool of the action; "" for an answer."""
        ...

    @property
    def args(self) -> Any:
        """Return the typed arguments of the action, or None."""
        ...

    @property
    def book(self) -> int:
        """Return the book that the run acts on: in a demo each launch has its own."""
        ...

    @property
    def today(self) -> date:
        """Return the day of the review (UTC)."""
        ...

    @property
    def ahead(self) -> Any:
        """Return the answer of `@desk.lookup`."""
        ...

    def count(
        self, tool: str, *, days: int, by: By = ..., unattended: bool = ..., **like: Any
    ) -> int:
        """Return how often a tool took effect, or may have."""
        ...

    def sum(
        self,
        tool: str,
        *,
        currency: str,
        days: int,
        by: By = ...,
        unattended: bool = ...,
        **like: Any,
    ) -> Money:
        """Return the sum that a tool's calls moved in one currency."""
        ...

    def last(self, tool: str, *, days: int, by: By = ..., **like: Any) -> date | None:
        """Return the day (UTC) of its newest call, or None."""
        ...

    def origin(self, argument: str, *also: str) -> Origin:
        """Return who named an argument's value; `also` are other names for it."""
        ...

    def outside(self) -> tuple[str, ...]:
        """Return the outsiders' texts that the run has read, newest last."""
        ...


def is_named(value: Any, texts: Iterable[str]) -> bool:
    """Tell whether one of these texts names a value.

    Only whole words match; a count matches by number, an amount only with its currency.
    """
    pattern = _PATTERNS.get(type(value), _plain)(value)
    return any(pattern.search(text) for text in texts)


def _plain(value: Any) -> re.Pattern[str]:
    if isinstance(value, int) and not isinstance(value, bool):  # a count, whatever is counted
        return re.compile(rf"(?<![\w.,-])(?:{int(value)}|{int(value):,})(?![\w-]|[.,]\d)")
    return _whole(re.escape(show(value)))


def _day(value: date) -> re.Pattern[str]:
    spelled = (value.isoformat(), show(value), f"{value:%d.%m.%Y}", f"{value:%d/%m/%Y}")
    return _whole("|".join(map(re.escape, spelled)))


def _money(value: Money) -> re.Pattern[str]:
    whole, _, part = value.amount.partition(".")
    grouped, points = [f"{int(whole):,}", whole], ".,"
    if len(part) == GROUP:  # 1.200 would be a thousand times as much or as little: see the point
        points = "."
    else:
        grouped.append(f"{int(whole):,}".replace(",", "."))
    cents = f"(?:[{points}]{part})" + ("" if part.strip("0") else "?") if part else ""
    number = f"(?:{'|'.join(map(re.escape, grouped))}){cents}"
    signs = "|".join(map(re.escape, (value.currency, *_SIGNS.get(value.currency, ()))))
    return re.compile(
        rf"(?<!\w)(?:{signs})\s?{number}(?![\w]|[.,]\d)|(?<![\w.,]){number}\s?(?:{signs})(?!\w)",
        re.IGNORECASE,
    )


def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{words})(?![\w-]|[.]\w)", re.IGNORECASE)


_PATTERNS: dict[type[Any], Any] = {Money: _money, date: _day}
