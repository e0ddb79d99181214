"""A desk's subject, tools and rules as declared, for engine and pages."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from inspect import getdoc, signature
from types import SimpleNamespace
from typing import Any, TypeVar

from agents.core import decisions
from agents.core.compat_0_2 import AMOUNT
from agents.core.finders import read_plainly
from agents.core.json_forms import ArgSpec
from agents.core.redact import PSEUDONYM
from agents.core.requests import Json
from agents.core.reviews import Ruling, Touch
from agents.sdk.adjustments import Called, Change, with_name
from agents.sdk.rules import Asked, Case, is_named
from agents.sdk.values import Arguments, BadArguments, Money, flat_specs, is_text, show

# The subject of a desk's runs, and how it is looked up.

_CHOICE = re.compile(r"\((\w+)\)\Z", re.ASCII)  # the key in "Anna (42)"


@dataclass(frozen=True)
class Subject:
    """The subject of a desk's runs, and how it is looked up."""

    kind: str  # employee, account
    find: Callable[..., Any]  # by key, or by key and `book`; returns None if there is none
    label: str = "{id}"  # with attributes of the object found
    link: str = ""
    # Return the keys of subjects whose name has this text; takes text, or text and `book`.
    search: Callable[..., Sequence[str]] | None = None
    # Return the keys that a text may name, for a person to compare; takes text, or text and `book`.
    # Subjects named neither by key nor by label are left out.
    named_in: Callable[..., Sequence[str]] | None = None
    # Return the keys with exactly this name (see `fold_name`); takes text, or text and `book`. Then
    # a call may hold a name instead of a key.
    named: Callable[..., Sequence[str]] | None = None
    listed_by: str = ""  # the tool that tells an agent keys and names
    nameless: str = ""  # its label without a name: "account {id}"
    # Return other words by which people write of a subject, by key and book: an erasure searches
    # for them, besides key and label.
    called: Callable[[str, int], Collection[str]] | None = None
    # Return subjects that a form suggests, by book and number. Then a demo's own book has them, and
    # typed text may be a suggestion: "Anna (42)".
    first: Callable[[int, int], Sequence[str]] | None = None
    # Empty every text about a subject, by key and book. Return whether the book knew it.
    forget: Callable[[str, int], bool] | None = None

    def find_all(self, text: str, book: int) -> list[tuple[str, str]]:
        """Return key and label of the subjects that match a key or a name."""
        if label := self.label_of(text, book):
            return [(text, label)]
        keys = self.search(text, **_of_book(self.search, book)) if self.search else ()
        return [(key, self.label_of(key, book)) for key in keys]

    def find_in(self, text: str, book: int) -> list[tuple[str, str]]:
        """Return key and label of the subjects that a text names."""
        keys = self.named_in(text, **_of_book(self.named_in, book)) if self.named_in else ()
        labelled = [(key, self.label_of(key, book)) for key in keys]
        return [(k, name) for k, name in labelled if is_named(k, [text]) or is_named(name, [text])]

    def key_in(self, text: str) -> str:
        """Return the key in a form's suggestion, or else the text."""
        chosen = _CHOICE.search(text) if self.first else None
        return chosen[1] if chosen else text

    def nobody(self, key: str) -> str:
        """Return the words for a subject whose name is hidden, or gone."""
        return f"{self.kind} {key}"

    def find_one(self, key: str, book: int) -> Any:
        """Return the object with a key, or None."""
        return self.find(key, **_of_book(self.find, book))

    def find_key(self, text: str, book: int) -> bool:
        """Tell whether a text is a key."""
        return self.find_one(text, book) is not None

    def keys_named(self, text: str, book: int) -> list[str]:
        """Return the keys with this name, each once."""
        keys = self.named(text, **_of_book(self.named, book)) if self.named else ()
        return list(dict.fromkeys(keys))

    def label_of(self, key: str, book: int) -> str:
        """Return a subject's label, or "" if there is none."""
        record = self.find_one(key, book)
        if record is None:
            return ""
        values = record if isinstance(record, Mapping) else vars(record)
        known = {"id": key, **values}
        check_places(f"what is found of {self.kind} {key}", self.label, known)
        if self.nameless and not all(known[place] for place in places_of(self.label)):
            return fill(self.nameless, known)
        return fill(self.label, known)


def fold_name(name: str) -> str:
    """Return the common form of a name's spellings: case, blanks, wide or invisible letters.

    A lookalike letter of another script is another letter.
    """
    return " ".join(read_plainly(name).text.casefold().split())


def _of_book(function: Callable[..., Any], book: int) -> dict[str, int]:
    return {"book": book} if "book" in signature(function).parameters else {}


# The rows that calls leave in a desk's own books, which prove the calls' effects.


@dataclass(frozen=True)
class Booked:
    """A row that a call left in the desk's books."""

    key: str  # of the call
    args: Mapping[str, Any]  # the call's arguments in the row, typed
    book: int
    is_done: bool = True  # False: only held, or released
    resource: str = ""  # the row's, if no argument of the call names it


@dataclass(frozen=True)
class Books:
    """The rows that a tool's calls leave: a query, its reader, and the column of its key."""

    rows: Any  # a Django queryset
    read: Callable[[Any], Booked]
    key: str = "key"

    def of_keys(self, keys: Collection[str]) -> Iterator[Booked]:
        """Yield the rows of these keys."""
        return map(self.read, self.rows.filter(**{f"{self.key}__in": keys}).order_by("pk"))


ANSWER = "final"  # instead of a tool, for a rule about an agent's answer
CONSOLE, AGENT = "console", "agent"  # who executes a tool's calls


def executor_in_words(server: str) -> str:
    """Return that an external agent executed a call, and what vouches for that."""
    return f"executed by the agent, {f'with a permit for {server}' if server else 'not verified'}"


def with_executor(after: str, more: Mapping[str, Any]) -> str:
    """Return a tool's sentence on its effect, with the executor if it was not the console."""
    if more.get("executed_by") != AGENT:
        return after
    return f"{after.removesuffix('.')} ({executor_in_words(more.get('server', ''))})."


@dataclass(frozen=True)
class DeskCall:
    """The context of a tool's call, besides its arguments."""

    key: str  # one key, one effect
    at: datetime
    subject: str
    book: int = 0  # the run's book: in a demo each launch has its own
    limits: Any = None  # the desk's own, typed
    nth: int = 1  # the call's number among this tool's calls in its run
    resource: str = ""  # of `reserve`: the key of what it takes from


class CallRefused(Exception):
    """The business refuses a call; the message is a code that says why.

    Raise it if nothing has been done, or in a transaction that is rolled back.
    """


@dataclass(frozen=True)
class DeskTool:
    """A function with its declarations for policy, pages and people."""

    name: str
    function: Callable[..., Json]
    touch: Touch
    title: str
    before: str  # an approval's effect: "Give {subject} the role {role}."
    after: str  # its effect, for people and for the run's answer
    subject: str  # the argument that names its subject
    arguments: Arguments
    deed: str = ""  # a word for its absence: "no transfer"
    resource: str = ""  # the argument that is locked and counted
    amount: str = ""  # the argument that holds money
    names: Mapping[str, Subject] = field(default_factory=dict)  # the look-up of a key in it
    may_change: Mapping[str, Change] = field(default_factory=dict)
    find: Callable[[str], Json] | None = None
    booked: Books | None = None  # its calls' rows in the desk's own books
    # Hold what the call will use, with its intent: (call, **typed arguments). Release it by key.
    reserve: Callable[..., object] | None = None
    release: Callable[[str, datetime], object] | None = None
    outside: tuple[str, ...] = ()  # names of texts in its result that outsiders wrote
    # Names of texts in its result that the company itself keeps, and an example result.
    vouches: tuple[str, ...] = ()
    example: Json = None
    may_say: Callable[[Json], dict[str, str]] | None = None  # sentences on its result, by name
    # The same for a new look-up: a letter with outdated findings waits.
    now: Callable[[Asked], Json] | None = None
    timeout: float = 10.0  # seconds
    letter: str = ""  # the argument that an outsider reads
    tells: Callable[..., Json] | None = None  # the tool whose calls its letters are about
    gauge: str = ""  # the measure, among the metrics, of calls without a letter
    valid: Callable[[Json, Json], bool] | None = None  # (result, arguments): is it in contract?
    request: decisions.RequestKind = decisions.ACTION  # a person's request about a call
    numbers: str = ""  # the currency of its amounts, if they are plain numbers: `Desk(numbers=…)`
    is_plain: bool = False  # its arguments are whole numbers, amounts and texts by name, untyped
    people: int = 1  # approvals needed if a person is asked: 1 or 2, whatever the amount
    executed_by: str = CONSOLE  # or AGENT: its function is never called
    server: str = ""  # of what its agent executes: who verifies the permits; "": nobody does
    repeatable: bool = False  # a repeat in its session needs no person
    here: bool = False  # all that it does are rows of this database: it may run in a web process

    @property
    def description(self) -> str:
        """Return its description for models: the first line of its docstring, or its title."""
        return (getdoc(self.function) or self.title).partition("\n")[0]

    @property
    def brief(self) -> str:
        """Return a call's effect as short as a button: "Send {amount} to {payee}"."""
        if not self.before:
            return f"{self.title} for {{{SUBJECT}}}"
        kept = {self.amount, self.resource, *self.names} - {self.subject}
        texts = re.split(r"(?<=\})", self.before)  # each with the place that it ends in
        kept_texts = [text for text in texts if kept.intersection(arguments_in(text))]
        if not self.amount or texts[0] not in kept_texts:
            return re.split("[,:;]", self.before.removesuffix("."))[0]
        return "".join(kept_texts)

    @property
    def terms(self) -> set[str]:
        """Return the arguments that identify a call's effect, besides its subject."""
        terms = {*arguments_in(self.before), *self.names, self.amount, self.resource}
        return terms - {self.subject, ""}

    @property
    def writes(self) -> bool:
        return self.touch is not Touch.READ

    @property
    def by_agent(self) -> bool:
        """Whether an external agent executes it: it is never called here."""
        return self.executed_by == AGENT

    @property
    def can_deny(self) -> bool:
        """Whether "not found" by a key, asked late enough, shows that a call did not happen."""
        return self.find is not None and self.touch is not Touch.ONCE

    @property
    def told_tool(self) -> str:
        """Return the tool whose calls its letters are about, or ""."""
        return self.tells.__name__ if self.tells else ""

    @property
    def keys(self) -> set[str]:
        """Return the arguments that identify a call, besides its subject and resource."""
        return {*self.names, *self.arguments.keys}

    @property
    def identifying(self) -> set[str]:
        """Return the arguments that tell two calls apart: all but free texts.

        A repeatable tool without keys has nothing else: for commands the text counts.
        """
        hints = self.arguments.hints
        if self.repeatable and not self.arguments.keys:
            return set(hints)
        own = {self.subject, self.resource, self.amount, *self.keys}
        return {name for name, hint in hints.items() if name in own or not is_text(hint)}

    @cached_property
    def spec(self) -> ArgSpec:
        """Return its arguments in a model's form."""
        return flat_specs(self.arguments) if self.is_plain else self.arguments

    def accepts(self, given: Json) -> bool:
        """Tell whether it can be called with these arguments, amounts in minor units."""
        if not isinstance(self.spec, Mapping):
            return self.spec.accepts(given)
        taken = inside(self.spec)
        needed = {name for name, kind in taken.items() if not kind.endswith("?")}
        return needed <= set(given) <= set(taken)

    def read(self, given: Json) -> Any:
        """Return the arguments of a call typed. Raises BadArguments.

        Plain ones were checked when the call was read; an invalid amount is None.
        """
        if not self.is_plain:
            return self.arguments.read(given)
        if not isinstance(given, Mapping):
            raise BadArguments("the arguments are no object")
        return SimpleNamespace(**{name: given.get(name) for name in self.arguments.hints})

    def call(self, call: DeskCall, given: Json) -> Json:
        """Call the function with typed arguments. Raises BadArguments."""
        try:
            return self.function(call, **(given if self.is_plain else vars(self.read(given))))
        except CallRefused as no:
            return {"status": "error", "error": str(no)}

    def hold(self, call: DeskCall, given: Json) -> None:
        """Hold what a call will use; if that is impossible, the call will refuse.

        Raises BadArguments.
        """
        args = vars(self.read(given))
        with suppress(CallRefused):
            if self.reserve:
                self.reserve(call, **args)

    def has_amount(self, args: Any) -> bool:
        """Tell whether typed arguments have their amount: above zero."""
        minor = getattr(args, self.amount) if self.numbers and self.amount else 1
        return isinstance(minor, int) and minor > 0

    def amount_of(self, args: Any) -> Money | None:
        """Return the money that a call with these typed arguments moves, or None."""
        money = getattr(args, self.amount) if self.amount else None
        if self.numbers and self.amount and self.has_amount(args):
            return Money(getattr(args, self.amount), self.numbers)
        return money if isinstance(money, Money) else None

    def resource_of(self, given: Json) -> str:
        """Return the resource that a call locks and counts on, or ""."""
        return str(given.get(self.resource) or "") if self.resource else ""

    def has_spellings(self, resource: str) -> bool:
        """Tell whether a resource can have several spellings; a desk's key has one.

        A policy's name stands for one value in all its spellings.
        """
        if not (self.resource and resource) or self.resource in (self.subject, *self.names):
            return False
        return PSEUDONYM.fullmatch(resource) is None

    def names_of(self, given: Json, book: int) -> dict[str, dict[str, str]]:
        """Look up the names of the keys in these arguments."""
        keys = {n: given[n] for n in self.names if isinstance(given.get(n), str)}
        labels = {n: {key: self.names[n].label_of(key, book)} for n, key in keys.items()}
        return {name: called for name, called in labels.items() if all(called.values())}

    def sentence(self, sentence: str, given: Json, label: str, called: Called | None = None) -> str:
        """Return one of its sentences with these arguments. Raises BadArguments."""
        return fill(sentence, self.words_of(self.read(given), label, called or {}))

    def words_of(self, args: Any, label: str, called: Called) -> dict[str, Any]:
        """Return the values for a sentence's places: a key with its name."""
        if self.numbers and self.amount:
            args = SimpleNamespace(**{**vars(args), self.amount: self.amount_of(args)})
        known = {name: with_name(key, n) for name, ns in called.items() for key, n in ns.items()}
        return with_subject({**vars(args), **known}, label)


def has_receipt(result: Json, args: Json) -> bool:
    """Tell whether a result has a status; without one the outcome is unknown."""
    return isinstance(result.get("status"), str)


def inside(spec: Mapping[str, str]) -> dict[str, str]:
    """Return plain arguments by the tool's own names for them."""
    return {
        (name.removesuffix("_usd") + "_minor" if kind == AMOUNT else name): kind
        for name, kind in spec.items()
    }


def question_of(tool: DeskTool) -> decisions.RequestKind:
    """Return the request about a tool without words of its own."""
    if tool.letter:
        return decisions.LETTER
    act = "{before}" if tool.before else f"{tool.title} for {{subject}}"
    changes = decisions.Answer(decisions.ADJUST, "Change", act, "{brief}")
    kind = replace(
        decisions.ACTION,
        tag=tool.title,
        asks=act,
        note="If approved, it runs once, with exactly these values.",
        answers=(
            *([changes] if tool.may_change else []),
            decisions.Answer(decisions.APPROVE, "Approve", act, "{brief}"),
            decisions.RETURN,
            decisions.Answer(
                decisions.REJECT, "Reject", "Reject this, and end the run", "Reject and end the run"
            ),
        ),
        change=decisions.ARGUMENTS if tool.may_change else "",
        done="{after}" if tool.after else "It was carried out.",
        undone="Nothing was done on this request.",
        pending="It has not been carried out yet.",
        doing=f"{tool.title}…",
        under_way=f"{tool.title}: started. Its outcome is not known yet.",
        lost=f"Did this take effect: {act}?",
    )
    if tool.executed_by == AGENT:
        by = executor_in_words(tool.server)
        kind = replace(
            kind,
            note="If approved, its agent executes it once, with exactly these values.",
            pending="Its agent has not taken it yet.",
            doing="",
            under_way=f"{tool.title}: its agent has taken it. The outcome is not known yet.",
            events={
                **kind.events,
                "intended": "The agent took {tool}{of}, to execute it.",
                "done": f"{{tool}}{{of}} was {by}.",
                "refused": "{tool} was not executed by the agent and took no effect.",
            },
        )
    return kind


@dataclass(frozen=True)
class DeskRule:
    """A check of the calls of one or more tools; it gets the parameters that it names."""

    name: str  # access.short
    tools: tuple[str, ...]
    touches: tuple[Touch, ...]  # each tool of these kinds, too
    check: Callable[..., Ruling | None]
    takes: tuple[str, ...]
    title: str = ""  # on pages; "": its name in words
    stops: Mapping[str, str] = field(default_factory=dict)  # why a run ended, by a ruling's code
    asks: Mapping[str, str] = field(default_factory=dict)  # why a person is asked
    floor: str = ""  # why no published policy may leave it out

    @property
    def rules_always(self) -> bool:
        """Tell whether it has a ruling on each call, and so may be what allows one."""
        return self.check.__annotations__.get("return") in (Ruling, Ruling.__name__)

    def concerns(self, tool: DeskTool | None) -> bool:
        """Tell whether a tool's calls concern it, or for None the run's answer."""
        if tool is None:
            return ANSWER in self.tools
        return tool.name in self.tools or tool.touch in self.touches

    def ruling(
        self,
        tool: DeskTool | None,
        args: Any,
        *,
        facts: Any,
        limits: Any,
        case: Case,
        given: Json = None,
        called: Called | None = None,
    ) -> Ruling | None:
        """Return its ruling on a call or an answer, with filled sentences. Raises its errors."""
        known = {"args": args, "facts": facts, "limits": limits, "case": case, "given": given}
        ruling = self.check(*map(known.__getitem__, self.takes))
        if ruling is None:
            return None
        if not isinstance(ruling, Ruling):
            raise TypeError(f"{self.name} returned {ruling!r}, which is no ruling")
        if "{" not in ruling.sentence + ruling.flip:
            return ruling
        values = tool.words_of(args, case.label, called or {}) if tool else {SUBJECT: case.label}
        return replace(
            ruling, sentence=fill(ruling.sentence, values), flip=fill(ruling.flip, values)
        )


# Sentences with places: "Give {subject} the role {role}". A place is a plain name; {subject} is the
# run's subject, and {args.subject} an argument of that name. No other attributes, no formats, no
# second pass: braces in a value stay text.

SUBJECT = "subject"  # the place in a sentence where the label of the subject goes
_OF_ARGS = "args."
PLACE = re.compile(r"\{((?:args\.)?\w+)\}")
T = TypeVar("T")


def fill(sentence: str, values: Mapping[str, Any]) -> str:
    """Return the sentence with its places filled; a place without a value stays."""
    return PLACE.sub(lambda m: show(values[m[1]]) if m[1] in values else m[0], sentence)


def places_of(sentence: str) -> list[str]:
    """Return the names of a sentence's places, in order."""
    return PLACE.findall(sentence)


def arguments_in(sentence: str) -> list[str]:
    """Return the arguments in a sentence, in order."""
    return [name.removeprefix(_OF_ARGS) for name in places_of(sentence) if name != SUBJECT]


def with_subject(args: Mapping[str, T], subject: T) -> dict[str, T]:
    """Return the values for a sentence's places, by these arguments and the subject's label."""
    return {**{f"{_OF_ARGS}{name}": args[name] for name in args}, **args, SUBJECT: subject}


def check_places(owner: str, sentence: str, names: Collection[str]) -> None:
    """Raise TypeError if a sentence has a place that `owner` cannot fill."""
    unknown = sorted(set(places_of(sentence)) - set(with_subject(dict.fromkeys(names), None)))
    if unknown:
        raise TypeError(f"{owner} has no {', '.join(unknown)} for its sentence {sentence!r}")
