"""A tool and a rule of a desk, as they were declared, with what engine and pages ask of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from inspect import getdoc
from typing import Any

from agents.core.requests import Json
from agents.core.rulings import Ruling
from agents.core.touch import Touch
from agents.sdk.adjustments import Change
from agents.sdk.argument_words import Called, with_name
from agents.sdk.arguments import Arguments
from agents.sdk.books import Books
from agents.sdk.placeholders import fill
from agents.sdk.rule_case import Case
from agents.sdk.subjects import Subject
from agents.sdk.values import Money

SUBJECT = "subject"  # the place in a sentence where the label of the subject goes


@dataclass(frozen=True)
class DeskCall:
    """What a tool is given besides its arguments."""

    key: str  # one key, one effect
    at: datetime
    subject: str
    book: int = 0  # what the run acts on: in a demo each launch has one of its own


class CallRefused(Exception):
    """The business does not do what a call asks for; the message is a code that says why.

    Raise it where nothing has been done, or in a transaction that takes it back.
    """


@dataclass(frozen=True)
class DeskTool:
    """A function with what policy, pages and people must know of it."""

    name: str
    function: Callable[..., Json]
    touch: Touch
    title: str
    before: str  # what an approval does: "Give {subject} the role {role}."
    after: str  # what was done, for people and for the run's answer
    subject: str  # the argument that names what it is about
    arguments: Arguments
    resource: str = ""  # the argument that names what is locked and counted
    amount: str = ""  # the argument that holds money
    names: Mapping[str, Subject] = field(default_factory=dict)  # how a key in it is looked up
    may_change: Mapping[str, Change] = field(default_factory=dict)
    find: Callable[[str], Json] | None = None
    booked: Books | None = None  # what its calls left in the desk's own books
    # Hold what the call will use, with its intent: (call, **typed arguments). Give it back by key.
    reserve: Callable[..., object] | None = None
    release: Callable[[str, datetime], object] | None = None
    outside: tuple[str, ...] = ()  # of what it returns: the names of texts that outsiders wrote
    may_say: Callable[[Json], dict[str, str]] | None = None  # of its result: sentences by name
    timeout: float = 10.0  # seconds
    people: int = 1  # how many have to say yes where one is asked: 1 or 2, whatever the amount

    @property
    def description(self) -> str:
        """Return what models are told of it."""
        return (getdoc(self.function) or self.title).partition("\n")[0]

    def call(self, call: DeskCall, given: Json) -> Json:
        """Call the function with its types. Raises BadArguments."""
        try:
            return self.function(call, **vars(self.arguments.read(given)))
        except CallRefused as no:
            return {"status": "error", "error": str(no)}

    def hold(self, call: DeskCall, given: Json) -> None:
        """Hold what a call will use, with its types; what cannot be held the call will refuse.

        Raises BadArguments.
        """
        args = vars(self.arguments.read(given))
        with suppress(CallRefused):
            if self.reserve:
                self.reserve(call, **args)

    def amount_of(self, given: Json) -> Money | None:
        """Return the money that a call moves, or None. Raises BadArguments."""
        money = getattr(self.arguments.read(given), self.amount) if self.amount else None
        return money if isinstance(money, Money) else None

    def resource_of(self, given: Json) -> str:
        """Return what a call locks and is counted on, or ""."""
        return str(given.get(self.resource) or "") if self.resource else ""

    def names_of(self, given: Json, book: int) -> dict[str, dict[str, str]]:
        """Look up what people call the keys in these arguments."""
        asked = {n: given[n] for n in self.names if isinstance(given.get(n), str)}
        found = {n: {key: self.names[n].label_of(key, book)} for n, key in asked.items()}
        return {name: called for name, called in found.items() if all(called.values())}

    def sentence(self, sentence: str, given: Json, label: str, called: Called | None = None) -> str:
        """Return one of its sentences with these arguments. Raises BadArguments."""
        return fill(sentence, self.words_of(self.arguments.read(given), label, called or {}))

    def words_of(self, args: Any, label: str, called: Called) -> dict[str, Any]:
        """Return what fills the places of a sentence: a key beside its name."""
        values = {**vars(args), SUBJECT: label}
        known = {name: with_name(key, n) for name, ns in called.items() for key, n in ns.items()}
        return values | known


@dataclass(frozen=True)
class DeskRule:
    """A check of one tool's calls; it is handed what it names."""

    name: str  # access.short
    tool: DeskTool
    check: Callable[..., Ruling | None]
    takes: tuple[str, ...]
    title: str = ""  # on pages; "": its name in words

    def ruling(
        self, given: Json, *, facts: Any, limits: Any, case: Case, called: Called | None = None
    ) -> Ruling | None:
        """Ask the rule, and fill its sentences. Raises whatever the rule raises."""
        args = self.tool.arguments.read(given)
        known = {"args": args, "facts": facts, "limits": limits, "case": case}
        said = self.check(**{name: known[name] for name in self.takes})
        if said is None:
            return None
        if not isinstance(said, Ruling):
            raise TypeError(f"{self.name} returned {said!r}, which is no ruling")
        values = self.tool.words_of(args, case.label, called or {})
        return replace(said, sentence=fill(said.sentence, values), flip=fill(said.flip, values))
