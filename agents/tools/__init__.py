"""Calls in words, and tools as a desk's models see them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agents.core.compat_0_2 import currency_of
from agents.core.decisions import ACTION, RequestKind, kind_of
from agents.core.json_forms import ArgSpecs
from agents.core.requests import Json
from agents.sdk.adjustments import Called, in_words, with_name
from agents.sdk.desk import DESKS, tools_at
from agents.sdk.desk_tools import DeskTool, fill, with_subject


def request_of(desk: str, stored: str, action: Mapping[str, Json]) -> RequestKind:
    """Return the kind of a request, in the words of its tool."""
    kind, named = kind_of(stored, action), tools_at(desk).get(str(action.get("name")))
    if named is None:
        return kind
    if kind.settles_call:
        return replace(kind, asks=named.request.lost)
    return named.request if kind is ACTION else kind


def ask_in_words(
    desk: str,
    stored: str,
    action: Mapping[str, Json],
    *,
    amount: str,
    subject: str,
    review: Json = None,
) -> str:
    """Return a request in a line of text: of an amount, about a subject, in words."""
    thing = str(action.get("name", ""))
    sentence = request_of(desk, stored, action).asks
    values = with_subject(call_in_words(desk, action, review), subject)
    before = fill(before_of(desk, thing), values)
    return sentence.format(tool=thing, step=thing, subject=subject, asked=amount, before=before)


def before_of(desk: str, tool: str) -> str:
    """Return the sentence about a call before it runs, with its places and as a part of another."""
    known = tools_at(desk).get(tool)
    return known.before.removesuffix(".") if known else ""


def names_in(review: Json) -> Called:
    """Return the names of the keys in a call's arguments at its review."""
    called: Called = ((review or {}).get("facts") or {}).get("names") or {}
    return called


def call_in_words(desk: str, action: Mapping[str, Json], review: Json = None) -> dict[str, str]:
    """Return the arguments of a call in words; "…" for erased ones."""
    name, args = str(action.get("name", "")), action.get("args") or {}
    known = tools_at(desk).get(name)
    gone = dict.fromkeys(known.arguments.hints if known else (), "…")
    called = names_in(review)
    return gone | {key: argument_in_words(desk, name, key, args[key], called) for key in args}


def argument_in_words(
    desk: str, tool: str, name: str, value: Json, called: Called | None = None
) -> str:
    """Return an argument in words: 21 January 2027, EUR 5.00, Papier Hansen (P-102)."""
    properties = _properties_of(tools_at(desk).get(tool))
    of_money = {"unit": currency_of_argument(desk, tool, name)} if name.endswith("_minor") else {}
    text = in_words(value, properties.get(name, of_money))
    names = (called or {}).get(name, {})
    return with_name(text, names.get(value, "")) if isinstance(value, str) else text


def _properties_of(tool: DeskTool | None) -> Mapping[str, Json]:
    return tool.arguments.shown["properties"] if tool else {}


def currency_of_argument(desk: str, tool: str, name: str) -> str:
    """Return the currency of an amount that is a plain number.

    For a tool that is gone, it is the currency in which such amounts were stored.
    """
    properties = _properties_of(tools_at(desk).get(tool))
    return str(properties.get(name, {}).get("unit", currency_of({})))


def is_by_agent(desk: str, name: str) -> bool:
    """Tell whether an external agent executes a tool's calls."""
    tools = tools_at(desk)
    return name in tools and tools[name].by_agent


def specs(desk: str) -> ArgSpecs:
    """Return the arguments of a desk's tools, as models give them."""
    return {name: tool.spec for name, tool in tools_at(desk).items()}


def usage_of(desk: str, names: Iterable[str]) -> dict[str, str]:
    """Return the usage of tools that no prompt describes: arguments, then a sentence."""
    tools = {} if desk in DESKS and DESKS[desk].has_prompts else tools_at(desk)
    held = ((name, tools[name]) for name in names if name in tools)
    return {name: f"{_arguments(tool)}: {tool.description}" for name, tool in held}


def descriptions_of(desk: str, names: Iterable[str]) -> dict[str, str]:
    """Return a sentence for models about each of these tools."""
    tools = tools_at(desk)
    return {name: tools[name].description for name in names if name in tools}


def _arguments(tool: DeskTool) -> str:
    if not isinstance(tool.spec, Mapping):
        return tool.spec.description
    return ", ".join(f"{name} ({kind})" for name, kind in tool.spec.items())


def letter_tools() -> set[str]:
    """Return the names of the tools that write to somebody: they move nothing."""
    return {tool.name for desk in DESKS.values() for tool in desk.tools.values() if tool.letter}
