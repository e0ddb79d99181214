"""The interface to the business behind each desk, for launch, engine and record.

A declared desk is registered with an adapter over its declarations; a shipped desk may have its own
implementation. Callers know a run's desk only by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from agents.core.actions import Action
from agents.core.call_target import CallTarget
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.db.driver import Pending
from agents.models import Effect, Escalation, Run, Step, Workspace
from agents.sdk.beside import Beside
from agents.sdk.report import Report


class UnknownSubject(LookupError):
    """The desk has no subject with that key. The message says so."""


class KnownSubject(NamedTuple):
    """A possible subject of a run: the desk's own key, and its name."""

    key: str
    label: str


class Example(NamedTuple):
    """A scenario that a demo offers to launch. `key` is that of its form."""

    key: str
    title: str
    watch: str  # what to watch for
    ends: str  # how it ends with the demo model; "" if `watch` says so
    goal: str
    subject: str = ""
    pattern: str = "supervisor"
    workflow: str = ""
    off: tuple[str, ...] = ()  # tools that it switches off


class Shelf(NamedTuple):
    """A desk's scenarios of one kind."""

    key: str
    title: str
    purpose: str
    examples: Sequence[Example]


class System(Protocol):
    """The interface of a desk's business. Methods are called only for its own runs."""

    @property
    def title(self) -> str: ...

    @property
    def kind(self) -> str:
        """Return what its subjects are: employee."""
        ...

    @property
    def patterns(self) -> Collection[str]:
        """Return which patterns its runs may follow."""
        ...

    @property
    def report(self) -> Report | None:
        """Return what its reports are about, and their figures; None if it has none."""
        ...

    @property
    def workflows(self) -> Mapping[str, Json]:
        """Return the documents that its runs of that pattern can follow, by name."""
        ...

    def shelves(self) -> Sequence[Shelf]:
        """Return what it has to try it with."""
        ...

    @property
    def profiles(self) -> Mapping[str, Limits]:
        """Return the policies that a workspace can begin with, by name; of a later desk, none."""
        ...

    def find_all(self, text: str, *, book_id: int, most: int) -> Sequence[KnownSubject]:
        """Return those that people mean by a key or a name."""
        ...

    def first_subjects(self, *, book_id: int, most: int) -> Sequence[KnownSubject]:
        """Return some that a form suggests."""
        ...

    def names(self, keys: Collection[tuple[int, str]]) -> Mapping[tuple[int, str], str]:
        """Return what some subjects are called now, by book and key, in one query."""
        ...

    def background(self, held: Escalation, *, at: datetime, effect: str) -> Beside:
        """Return what its books say beside a request; `effect` is the key of what became of it."""
        ...

    def bound_arguments(self, run: Run) -> Mapping[str, Json]:
        """Return the arguments that can have one value only in a run, as its model is told."""
        ...

    def new_book(self, name: str, *, is_demo: bool, at: datetime) -> int:
        """Make the book of a new workspace and return its key."""
        ...

    def open_book(self, workspace: Workspace, at: datetime) -> int:
        """Return the key of the book that a new run acts on: its own copy in a demo."""
        ...

    def find_subject(self, given: int | str | None, *, book_id: int) -> KnownSubject:
        """Look a subject up for a launch. Raises UnknownSubject."""
        ...

    def target_of(self, run: Run, action: Action) -> CallTarget:
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
