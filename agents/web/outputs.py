"""What an agent put out, as people read it: its words, and the fields of JSON after them."""

from __future__ import annotations

import re
from typing import NamedTuple

from agents.core.former import CURRENCY
from agents.core.money import format_money
from agents.core.requests import Json
from agents.core.strict_json import BadJson, parse
from agents.sdk.adjustments import label_of
from agents.sdk.argument_words import in_words

_CODE = re.compile("[a-z]+(_[a-z]+)+")


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
    words = text[:begin].rstrip().removesuffix("json").removesuffix("```")
    fields = {label_of(name): field_in_words(name, said[name]) for name in said}
    return Output(words.rstrip(), fields)


def field_in_words(name: str, value: Json, currency: str = CURRENCY) -> str:
    """Return a field of a reply as people read it: minor units as an amount, codes as words."""
    if name.endswith("_minor") and type(value) is int:
        return format_money(value, currency)
    words = in_words(value)
    return words.replace("_", " ") if _CODE.fullmatch(words) else words


def in_prose(text: str) -> str:
    """Return the same as one text: the fields are sentences at its end."""
    words, fields = split_output(text)
    return "\n\n".join(filter(None, (words, "; ".join(f"{k}: {v}" for k, v in fields.items()))))
