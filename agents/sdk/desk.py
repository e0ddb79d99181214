"""A desk: one business under supervision, as its company declares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from inspect import getdoc, signature
from typing import Any, TypeVar

from agents.core.registry import enter
from agents.core.requests import Json
from agents.core.rulings import Ruling
from agents.core.touch import Touch
from agents.sdk.arguments import Arguments, BadArguments, arguments_of
from agents.sdk.asked import Asked
from agents.sdk.books import ReadBooks
from agents.sdk.changes import Change, bare_type, check_change
from agents.sdk.demo import Says
from agents.sdk.evidence import Evidence, write_evidence
from agents.sdk.rulings import Case
from agents.sdk.sentences import check_places, fill
from agents.sdk.stored import limit_fields
from agents.sdk.values import Money
from agents.sdk.words import Called, with_name

F = TypeVar("F", bound=Callable[..., Any])
# Rules that the console adds to every desk: a call is about the run's subject, an answer says
# what the ledger says, and what goes out without a person has a cap a day.
OF_CONSOLE = ("bound", "answer", "caps")
TAKES = ("args", "facts", "limits", "case")  # what a rule may name
SOME_DAY = date(2027, 1, 21)  # on which a scenario's days are tried when it is declared
SUBJECT = "subject"  # the place in a sentence where the label of the subject goes


@dataclass(frozen=True)
class DeskCall:
    """What a tool is given besides its arguments."""

    key: str  # one key, one effect
    at: datetime
    subject: str
    book: int = 0  # what the run acts on: in a demo each launch has one of its own


@dataclass(frozen=True)
class Subject:
    """What a run of the desk is about, and how it is looked up."""

    kind: str  # employee, account
    find: Callable[..., Any]  # by key, or by key and `book`; None: there is no such thing
    label: str = "{id}"  # of the attributes of what was found
    link: str = ""
    # Keys of what is called so, or in part: by text, or by text and `book`.
    search: Callable[..., Sequence[str]] | None = None
    # Empty every text about one, by key and book, and say whether it was known there.
    forget: Callable[[str, int], bool] | None = None

    def find_all(self, text: str, book: int) -> list[tuple[str, str]]:
        """Return key and label of what people mean by a key or a name."""
        if label := self.label_of(text, book):
            return [(text, label)]
        keys = self.search(text, **_of_book(self.search, book)) if self.search else ()
        return [(key, self.label_of(key, book)) for key in keys]

    def label_of(self, key: str, book: int) -> str:
        """Return what people call it, or "" where there is no such thing."""
        found = self.find(key, **_of_book(self.find, book))
        if found is None:
            return ""
        values = found if isinstance(found, Mapping) else vars(found)
        return fill(self.label, {"id": key, **values})


def _of_book(function: Callable[..., Any], book: int) -> dict[str, int]:
    return {"book": book} if "book" in signature(function).parameters else {}


@dataclass(frozen=True)
class DeskTool:
    """A function with what policy, pages and people must know of it."""

    name: str
    function: Callable[..., Json]
    touch: Touch
    title: str
    before: str  # what an approval does: "Gives {subject} the role {role}."
    after: str  # what was done, for people and for the run's answer
    subject: str  # the argument that names what it is about
    arguments: Arguments
    resource: str = ""  # the argument that names what is locked and counted
    amount: str = ""  # the argument that holds money
    # By argument: what people call a key, of the key and the book; "" where nobody knows.
    names: Mapping[str, Callable[[str, int], str]] = field(default_factory=dict)
    may_change: Mapping[str, Change] = field(default_factory=dict)
    find: Callable[[str], Json] | None = None
    booked: ReadBooks | None = None  # what its calls left in the desk's own books
    # Hold what the call will use, with its intent: (call, **typed arguments). Give it back by key.
    reserve: Callable[..., object] | None = None
    release: Callable[[str, datetime], object] | None = None
    outside: tuple[str, ...] = ()  # of what it returns: the names of texts that outsiders wrote
    may_say: Callable[[Json], dict[str, str]] | None = None  # of its result: sentences by name
    timeout: float = 10.0  # seconds

    @property
    def description(self) -> str:
        """Return what models are told of it."""
        return (getdoc(self.function) or self.title).partition("\n")[0]

    def call(self, call: DeskCall, given: Json) -> Json:
        """Call the function with its types. Raises BadArguments."""
        return self.function(call, **vars(self.arguments.read(given)))

    def hold(self, call: DeskCall, given: Json) -> None:
        """Hold what a call will use, with its types. Raises BadArguments."""
        if self.reserve:
            self.reserve(call, **vars(self.arguments.read(given)))

    def amount_of(self, given: Json) -> Money | None:
        """Return the money that a call moves, or None. Raises BadArguments."""
        money = getattr(self.arguments.read(given), self.amount) if self.amount else None
        return money if isinstance(money, Money) else None

    def resource_of(self, given: Json) -> str:
        """Return what a call locks and is counted on, or ""."""
        return str(given.get(self.resource) or "") if self.resource else ""

    def names_of(self, given: Json, book: int) -> dict[str, dict[str, str]]:
        """Look up what people call the keys in these arguments."""
        found = {name: (given[name], find(given[name], book)) for name, find in self.names.items()}
        return {name: {key: called} for name, (key, called) in found.items() if called}

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


@dataclass(frozen=True)
class Scenario:
    """A case to try the desk with; `demo` is what its model says without a key."""

    title: str
    subject: str
    goal: str
    expect: str
    demo: Sequence[Any]


class Desk:
    """One business: its subject, tools, rules, facts, limits and scenarios."""

    def __init__(
        self,
        *,
        name: str,
        title: str,
        subject: Subject,
        limits: type[Any] | None = None,
        brief: str = "",
        fill_demo: Callable[[int, datetime], object] | None = None,
        caps: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        if not name.isidentifier():
            raise TypeError(f"a desk cannot be called {name!r}")
        self.name, self.title, self.subject, self.brief = name, title, subject, brief
        self.limits_type = limits
        self.limit_fields = limit_fields(limits) if limits else []
        self.tools: dict[str, DeskTool] = {}
        self.rules: dict[str, DeskRule] = {}
        self.scenarios: list[Scenario] = []
        self.gather: Callable[[str, Asked], Any] | None = None
        self.ahead: Callable[[str], Any] | None = None
        self.fresh = timedelta(0)
        self.show: Callable[..., Sequence[Evidence]] | None = None
        # (book, at): in a demo each launch gets a book of its own, which this fills.
        self.fill_demo = fill_demo
        self.caps = dict(caps or {})  # by currency, as `core.limits.CAPS` names them

    def facts(self, gather: F) -> F:
        """Declare how facts are gathered: local, under lock, once for each review."""
        self.gather = gather
        return gather

    def lookup(self, *, fresh: timedelta) -> Callable[[F], F]:
        """Declare what is asked of other machines, by the subject's key, as a frozen dataclass.

        It is asked before a transaction and is `asked.ahead`; older than `fresh` it is asked anew.
        """

        def declare(ahead: F) -> F:
            self.ahead, self.fresh = ahead, fresh
            return ahead

        return declare

    def evidence(self, show: F) -> F:
        """Declare what a person reads beside a call, of args, facts, limits and case."""
        check_takes(show)
        self.show = show
        return show

    def evidence_of(self, **known: Any) -> list[Json]:
        """Return the evidence for a call as data, of what TAKES names."""
        if self.show is None:
            return []
        takes = signature(self.show).parameters
        return write_evidence(self.show(**{name: known[name] for name in takes}))

    def tool(
        self,
        touch: Touch,
        *,
        title: str,
        subject: str,
        before: str = "",
        after: str = "",
        may_change: Mapping[str, Change] | None = None,
        **more: Any,
    ) -> Callable[[F], F]:
        """Declare a tool. `more` are the other columns of DeskTool. Raises TypeError."""

        def declare(function: F) -> F:
            arguments = arguments_of(function)
            changes, amount = dict(may_change or {}), more.get("amount", "")
            names = more.get("names", {})
            named = {subject, *changes, *names, more.get("resource"), amount}
            unknown = sorted(name for name in named if name and name not in arguments.hints)
            if unknown:
                raise TypeError(f"{function.__name__} has no argument {', '.join(unknown)}")
            if touch is not Touch.READ and not (before and after):
                raise TypeError(f"{function.__name__}: say what it does, before and after it")
            if amount and bare_type(arguments.hints[amount]) is not Money:
                raise TypeError(f"{function.__name__}: {amount} is to be Money")
            if any(bare_type(arguments.hints[name]) is not str for name in names):
                raise TypeError(f"{function.__name__}: only a text has a name beside it")
            if subject in changes:
                raise TypeError(f"{function.__name__}: nobody changes what a call is about")
            check_places(function.__name__, title, ())
            for sentence in (before, after):
                check_places(function.__name__, sentence, {*arguments.hints, SUBJECT})
            for name, how in changes.items():
                check_change(arguments, name, how)
            declared = DeskTool(
                name=function.__name__,
                function=function,
                touch=touch,
                title=title,
                before=before,
                after=after,
                subject=subject,
                arguments=arguments,
                may_change=changes,
                **more,
            )
            enter(self.tools, declared.name, declared)
            return function

        return declare

    def rule(self, tool: Callable[..., Any], *, title: str = "") -> Callable[[F], F]:
        """Declare a rule of a tool; it takes what it names of args, facts, limits and case.

        Pages call it `title`, or its name in words, and explain it by its docstring.
        """

        def declare(check: F) -> F:
            takes = check_takes(check)
            name = f"{self.name}.{check.__name__}"
            enter(self.rules, name, DeskRule(name, self.tools[tool.__name__], check, takes, title))
            return check

        return declare

    def document(self, held: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """Return the part of a policy that this desk begins with.

        Of what a policy has `held` of it the limits stay; what is new is added, and what the desk
        has no more is left out.
        """
        had = held or {}
        limits = {one.name: one.default for one in self.limit_fields}
        caps = {"caps": self.caps} if self.caps else {}
        return {
            "rules": self.console_rules + list(self.rules),
            "tools": list(self.tools),
            **caps,
            **{name: had[name] for name in had if name not in ("rules", "tools")},
            "limits": {name: had.get("limits", {}).get(name, limits[name]) for name in limits},
        }

    @property
    def console_rules(self) -> list[str]:
        return [f"{self.name}.{name}" for name in OF_CONSOLE]

    def missing_from(self, held: Mapping[str, Json]) -> list[str]:
        """Return which of its rules and tools a part of a policy does not name."""
        named = {*held.get("rules", ()), *held.get("tools", ())}
        return [n for n in (*self.console_rules, *self.rules, *self.tools) if n not in named]

    def scenario(
        self, title: str, *, subject: str, goal: str, expect: str, demo: Sequence[Any] = ()
    ) -> None:
        """Declare a case to try it with. Raises TypeError for a call that no tool could take."""
        for line in demo:
            if isinstance(line, Says):
                self._check_line(title, line)
        self.scenarios.append(Scenario(title, subject, goal, expect, demo))

    def _check_line(self, title: str, line: Says) -> None:
        tool = self.tools.get(line.tool)
        if tool is None:
            raise TypeError(f"scenario {title!r}: no tool above it is called {line.tool}")
        try:
            tool.arguments.read(line.reply(SOME_DAY)["args"])
        except BadArguments as error:
            raise TypeError(f"scenario {title!r}: {line.tool}: {error}") from None

    def rulings_of(
        self, line: Says, *, case: Case, facts: Any = None, limits: Any = None
    ) -> list[Ruling]:
        """Return what the rules say of a scenario's call, for a company's own tests."""
        given = line.reply(case.today)["args"]
        known: dict[str, Any] = {"facts": facts, "limits": limits, "case": case}
        rules = [rule for rule in self.rules.values() if rule.tool.name == line.tool]
        return [said for rule in rules if (said := rule.ruling(given, **known))]


def check_takes(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return what a function asks for. Raises TypeError where that is not of TAKES."""
    takes = tuple(signature(function).parameters)
    unknown = sorted(set(takes) - set(TAKES))
    if unknown:
        raise TypeError(f"{function.__name__} asks for {', '.join(unknown)}")
    return takes


DESKS: dict[str, Desk] = {}  # of this process, by name
