"""Tools: the functions that the gateway may call. Each desk declares its own.

The gateway sets ``context``; a model never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from inspect import getdoc
from typing import TypeAlias

from agents.core.actions import ArgSpec, ArgSpecs
from agents.core.calls import OutcomeUnknown, Touch
from agents.core.limits import Limits
from agents.core.old_names import AMOUNT, currency_of
from agents.core.request_kinds import ACTION, RequestKind, kind_of
from agents.core.requests import Json
from agents.sdk.adjustments import Called, Change, in_words, with_name
from agents.sdk.arguments import Arguments
from agents.sdk.desk_tools import fill, with_subject

__all__ = [
    "TOOLS",
    "Context",
    "OutcomeUnknown",
    "Tool",
    "Touch",
    "accepts",
    "letter_tools",
]


@dataclass(frozen=True)
class Context:
    """The context that the gateway passes to a tool, besides its arguments."""

    book_id: int
    key: str  # the idempotency key: one key, one effect
    at: datetime
    limits: Limits
    subject_key: str = ""  # the subject that the run may act on; "": any
    nth: int = 1  # the number of this call among the run's calls of the tool
    resource: str = ""  # the resource that was reviewed, for tools that reserve it


Call: TypeAlias = Callable[..., Json]  # (context, **args), plain or async


@dataclass(frozen=True)
class Tool:
    """A function with its declarations for the gateway."""

    name: str
    call: Call
    touch: Touch
    timeout: float  # seconds in total, from when a thread takes the call
    # argument -> int | old_names.AMOUNT | str, with ? where it may be left out; or as declared
    spec: ArgSpec
    reserve: Callable[..., None] | None = None  # reserve what the call will use, with the intent
    release: Callable[[str, datetime], object] | None = None  # release it, by key
    find: Callable[[str], Json] | None = None  # find a key's outcome: a result, None, or raises
    valid: Callable[[Json, Json], bool] | None = None  # (result, args): is the result in contract?
    before: str = ""  # what a call does, for people: "Give {subject} the role {role}."
    brief: str = ""  # the same, as short as a button: "Send {amount} to {payee}"
    told: str = ""  # for a model whose prompt does not describe the tool: its effect in a sentence
    after: str = ""  # what a call has done, for people: "{amount} went to {subject}."
    may_say: Callable[[Json], dict[str, str]] | None = None  # sentences about a result, by name
    letter: str = ""  # the argument that an outsider reads; "": none
    tells: str = ""  # the tool whose calls its letters are about
    gauge: str = ""  # the measure of calls that no letter is about
    request: RequestKind = ACTION  # the request to a person about a call
    typed: Arguments | None = None  # its arguments as forms read them; None: no changes
    may_change: Mapping[str, Change] = field(default_factory=dict)  # by a person, and how
    people: int = 1  # reviewers needed when one is asked
    by_agent: bool = False  # an external agent executes it; the console never calls it
    server: str = ""  # the server that verifies its permits; "": none
    unrecorded: tuple[str, ...] = ()  # arguments missing in the profile `reference`

    @property
    def recorded_spec(self) -> ArgSpec:
        """Return its arguments as the profile `reference` offers them."""
        if not self.unrecorded or not isinstance(self.spec, Mapping):
            return self.spec
        return {name: kind for name, kind in self.spec.items() if name not in self.unrecorded}

    @property
    def writes(self) -> bool:
        return self.touch is not Touch.READ

    @property
    def can_deny(self) -> bool:
        """Whether "not found" by a key, asked late enough, shows that a call did not happen."""
        return self.find is not None and self.touch is not Touch.ONCE


TOOLS: dict[str, Tool] = {}


def request_of(stored: str, action: Mapping[str, Json]) -> RequestKind:
    """Return the kind of a request, in the words of its tool."""
    kind, named = kind_of(stored, action), TOOLS.get(str(action.get("name")))
    if named is None:
        return kind
    if kind.settles_call:
        return replace(kind, asks=named.request.lost)
    return named.request if kind is ACTION else kind


def ask_in_words(
    stored: str, action: Mapping[str, Json], *, asked: str, subject: str, review: Json = None
) -> str:
    """Return a request in a line of text: of an amount, about a subject, in words."""
    thing = str(action.get("name", ""))
    sentence = request_of(stored, action).asks
    before = fill(before_of(thing), with_subject(call_in_words(action, review), subject))
    return sentence.format(tool=thing, step=thing, subject=subject, asked=asked, before=before)


def before_of(tool: str) -> str:
    """Return the sentence about a call before it runs, with its places and as a part of another."""
    return TOOLS[tool].before.removesuffix(".") if tool in TOOLS else ""


def names_in(review: Json) -> Called:
    """Return the names of the keys in a call's arguments at its review."""
    called: Called = ((review or {}).get("facts") or {}).get("names") or {}
    return called


def call_in_words(action: Mapping[str, Json], review: Json = None) -> dict[str, str]:
    """Return the arguments of a call in words; "…" for erased ones."""
    name, args = str(action.get("name", "")), action.get("args") or {}
    known = TOOLS[name].typed if name in TOOLS else None
    gone = dict.fromkeys(known.hints if known else (), "…")
    called = names_in(review)
    return gone | {key: argument_in_words(name, key, args[key], called) for key in args}


def argument_in_words(tool: str, name: str, value: Json, called: Called | None = None) -> str:
    """Return an argument in words: 21 January 2027, EUR 5.00, Papier Hansen (P-102)."""
    known = TOOLS.get(tool)
    properties = known.typed.shown["properties"] if known and known.typed else {}
    of_money = {"unit": currency_of_argument(tool, name)} if name.endswith("_minor") else {}
    text = in_words(value, properties.get(name, of_money))
    names = (called or {}).get(name, {})
    return with_name(text, names.get(value, "")) if isinstance(value, str) else text


def currency_of_argument(tool: str, name: str) -> str:
    """Return the currency of an amount that is a plain number.

    For a tool that is gone, it is the currency in which such amounts were stored.
    """
    known = TOOLS.get(tool)
    properties = known.typed.shown["properties"] if known and known.typed else {}
    return str(properties.get(name, {}).get("unit", currency_of({})))


def is_by_agent(name: str) -> bool:
    """Tell whether an external agent executes a tool's calls."""
    return name in TOOLS and TOOLS[name].by_agent


def specs() -> ArgSpecs:
    """Return the arguments of every tool, as models give them."""
    return {name: registered.spec for name, registered in TOOLS.items()}


def usage_of(names: Iterable[str]) -> dict[str, str]:
    """Return the usage of tools that no prompt describes: arguments, then a sentence."""
    found = ((name, TOOLS[name]) for name in names if name in TOOLS)
    return {name: f"{_arguments(tool)}: {tool.told}" for name, tool in found if tool.told}


def descriptions_of(names: Iterable[str]) -> dict[str, str]:
    """Return a sentence for models about each of these tools."""
    found = (TOOLS[name] for name in names if name in TOOLS)
    return {one.name: one.told or (getdoc(one.call) or one.name) for one in found}


def _arguments(registered: Tool) -> str:
    if not isinstance(registered.spec, Mapping):
        return registered.spec.description
    return ", ".join(f"{name} ({kind})" for name, kind in registered.spec.items())


def letter_tools() -> set[str]:
    """Return the names of the tools that write to somebody: they move nothing."""
    return {name for name, tool in TOOLS.items() if tool.letter}


def accepts(registered: Tool, args: Json) -> bool:
    """Tell whether a tool can be called with these arguments, amounts in minor units."""
    if not isinstance(registered.spec, Mapping):
        return registered.spec.accepts(args)
    taken = inside(registered.spec)
    needed = {name for name, kind in taken.items() if not kind.endswith("?")}
    return needed <= set(args) <= set(taken)


def inside(spec: Mapping[str, str]) -> dict[str, str]:
    """Return arguments by the tool's own names for them."""
    return {
        (name.removesuffix("_usd") + "_minor" if kind == AMOUNT else name): kind
        for name, kind in spec.items()
    }
