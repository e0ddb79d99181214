"""What a new demo shows as a desk's past: cases, and who decided what they asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.core.requests import Json


@dataclass(frozen=True)
class PastAnswer:
    """A reviewer's decision on a case's request."""

    by: str
    approve: bool
    comment: str
    patch: Mapping[str, Json] = field(default_factory=dict)  # what they changed


@dataclass(frozen=True)
class PastCase:
    """A case of the past, and its frequency per thousand."""

    goal: str
    weight: int = 0
    answer: PastAnswer | None = None
    subject: str = ""  # of the demo's book; "": a report
    pattern: str = "supervisor"
    workflow: str = ""
    demo: Sequence[Any] = ()  # what its model says
    by: str = "omar"  # who launched it


@dataclass(frozen=True)
class Past:
    """The cases of a fortnight, those that wait, and the names that their copies get."""

    cases: Sequence[PastCase]
    waiting: Sequence[PastCase]
    names: Sequence[str]
    resource: type[Any] | None = None  # the table whose keys name what calls take from, if any
    hurry: Callable[[], None] = lambda: None  # called where cases are driven and nobody watches

    @property
    def all_cases(self) -> Sequence[PastCase]:
        return [*self.cases, *self.waiting]
