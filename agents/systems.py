"""The business behind each desk: what launch, engine and record ask of it.

A declared desk is entered by an adapter over its declarations; a desk that ships may enter one of
its own. Whoever asks knows a run's desk by its name only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from agents.core.actions import Action
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.terms import Terms
from agents.db.driver import Pending
from agents.models import Effect, Run, Step, Workspace


class UnknownSubject(LookupError):
    """The desk knows nobody and nothing of that key. The message says so."""


class KnownSubject(NamedTuple):
    """Whom or what a run may act on: the desk's own key, and what people call it."""

    key: str
    label: str
    number: int | None = None  # where the desk counts its subjects


class System(Protocol):
    """What a desk answers. Each method is asked of its own runs only."""

    def new_book(self, name: str, *, is_demo: bool, at: datetime) -> int:
        """Make the book of a new workspace and return its key."""
        ...

    def open_book(self, workspace: Workspace, at: datetime) -> int:
        """Return the key of the book that a new run acts on: its own copy in a demo."""
        ...

    def find_subject(self, given: int | str | None, *, book_id: int) -> KnownSubject:
        """Look a subject up for a launch. Raises UnknownSubject."""
        ...

    def newest_day(self, book_id: int) -> Json:
        """Return the day and region of the newest numbers to report on, or None."""
        ...

    def terms_of(self, run: Run, action: Action) -> Terms:
        """Return what an action is about and how much it moves; of what is no call, its run's."""
        ...

    def fetch_facts(
        self,
        run: Run,
        action: Action,
        limits: Limits,
        steps: Sequence[Step],
        *,
        at: datetime,
        lock: bool,
        done: Mapping[int, Json],
        ahead: Any,
    ) -> Pending[tuple[Facts, str]]:
        """Ask for the facts of a review, and for the key of the resource that a call uses, or "".

        `lock` holds the resource until the transaction ends. `done` are results that the ledger is
        about to be told, by the key of their step; `ahead` is what was looked up before, or None.
        """
        ...

    def label_of(self, key: str, name: str) -> str:
        """Return what people call a subject; without a name, once it was forgotten.

        Raises UnknownSubject for what can be no key.
        """
        ...

    def names_of(self, key: str, *, books: Collection[int]) -> frozenset[str]:
        """Return what a subject is called where people write of it."""
        ...

    def forget(self, key: str, *, books: Collection[int]) -> int | None:
        """Empty every text about a subject in these books. Return in how many it was known.

        None: the desk does not say how, and its books are as they were.
        """
        ...

    def traces_of(self, effects: Sequence[Effect], erased: Collection[UUID]) -> Mapping[str, Json]:
        """Return what its own books hold of writes, as columns of the record by their keys.

        `erased` are runs whose texts are gone.
        """
        ...

    def without_intent(self) -> Iterator[str]:
        """Yield what was done by a key of some run that no effect has."""
        ...


SYSTEMS: dict[str, System] = {}  # by desk, once the apps are ready
