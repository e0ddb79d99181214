"""What an agent put out, as people read it: its words, and the fields of JSON after them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from agents.core.money import format_money
from agents.core.old_names import currency_of
from agents.core.requests import Json
from agents.core.strict_json import BadJson, parse
from agents.policies import desk_words
from agents.sdk.adjustments import label_of
from agents.sdk.argument_words import in_words
from agents.sdk.desk import DESKS, tool_title

_CODE = re.compile("[a-z]+(_[a-z]+)+")
# What a reply's status says that its other fields do not.
_STATUSES = {"done": "", "ok": "", "error": "", "needs_reroute": "Declined"}


class Output(NamedTuple):
    """Its words, and the fields that later steps read, by label."""

    words: str
    fields: dict[str, str]


def split_output(text: str) -> Output:
    """Return what ends with a JSON object in its two parts; anything else is words."""
    begin = 0 if text.startswith("{") else text.rfind("\n{") + 1
    if not text.startswith("{", begin):
        return Output(text, {})
    try:
        said = parse(text[begin:].rstrip().removesuffix("```"))
    except BadJson:
        return Output(text, {})
    if said.get("kind") == "tool" and isinstance(said.get("args"), dict):
        said = {"Proposes": tool_title(str(said.get("name"))), **said["args"]}
    currency = currency_of(said)
    words = text[:begin].rstrip().removesuffix("json").removesuffix("```")
    fields = {label_of(name): field_in_words(name, said[name], currency) for name in said}
    return Output(words.rstrip(), fields)


def field_in_words(name: str, value: Json, currency: str) -> str:
    """Return a field of a reply as people read it: amounts, shares, counts, codes as words."""
    if name.endswith("_minor") and type(value) is int:
        return format_money(value, currency)
    unit = name.rpartition("_")[2].upper()
    if type(value) in (int, float) and any(unit == desk.numbers for desk in DESKS.values()):
        return f"{unit} {value:,.2f}"
    if name.endswith("_rate") and type(value) is float:
        return f"{value:.1%}"
    if type(value) is int and not name.endswith("id"):
        return f"{value:,}"
    words = in_words(value)
    return words.replace("_", " ") if _CODE.fullmatch(words) else words


def fields_in_words(reply: Mapping[str, Json]) -> str:
    """Return the fields of a tool's reply in a line."""
    currency, status = currency_of(reply), str(reply.get("status", ""))
    told = [
        f"{label} {field_in_words(name, value, currency)}"
        for name, value in reply.items()
        if name != "status" and (label := desk_words.FIELDS.get(name, label_of(name)))
    ]
    return " · ".join(filter(None, (_STATUSES.get(status, status.capitalize()), *told)))


def in_prose(text: str) -> str:
    """Return the same as one text: the fields are sentences at its end."""
    words, fields = split_output(text)
    return "\n\n".join(filter(None, (words, "; ".join(f"{k}: {v}" for k, v in fields.items()))))
