"""The arguments that a person may change: their bounds, and how they are typed.

Form, API and command line share this table: nothing else can be changed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Any, TypeAlias

from agents.core.money import BadAmount, minor_of_text, plain_amount
from agents.core.requests import Json
from agents.core.units import is_currency, with_unit
from agents.sdk.adjustments import (
    Change,
    Choose,
    Lower,
    changes_in,
    is_among,
    is_ordered,
    kind_of,
    label_of,
)
from agents.sdk.argument_words import in_words
from agents.sdk.arguments import Arguments
from agents.sdk.rule_case import Case
from agents.sdk.values import Money, show

# Of arguments that nobody named, by name: the values to choose from, each in words.
Choices: TypeAlias = Mapping[str, Mapping[str, str]]
log = logging.getLogger(__name__)


class BadPatch(ValueError):
    """A person may not make this change. The message says what they may; `name` is the argument."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


class AmountTooHigh(BadPatch):
    """An amount above its range; everything else is allowed. `left` are the arguments with it.

    These arguments may show another, tighter bound.
    """

    def __init__(self, field: OpenField, value: Json, left: dict[str, Json]) -> None:
        super().__init__(field.name, field.refusal(value))
        self.most_minor, self.left = field.most_minor, left


@dataclass(frozen=True)
class OpenField:
    """An argument, or a field of one, that a person may change; values as JSON.

    `least` and `most` are typed; for texts and lists they count characters and items.
    """

    name: str  # until, or parcel.weight
    kind: str  # choice, money, date, number, text, or lines: a list, an item a line
    schema: Json
    value: Json
    typed: Any  # the same, as its function takes it
    least: Any = None  # None if there are only `choices`
    most: Any = None
    choices: tuple[Json, ...] = ()  # of a list: its items
    is_part: bool = False  # items may only be removed, keeping the order
    words: Mapping[str, str] = field(default_factory=dict)  # of each choice, where one is a must

    @property
    def label(self) -> str:
        return label_of(self.name)

    @property
    def help(self) -> str:
        if self.kind == "choice":
            return f"One of {', '.join(map(self.show, self.choices))}."
        unit = {"text": " characters", "lines": " lines, each one item"}.get(self.kind, "")
        among = f": {', '.join(self.line(one) for one in self.choices)}" if self.choices else ""
        return f"From {self.show(self.least)} to {self.show(self.most)}{unit}{among}."

    @property
    def currency(self) -> str:
        """Return an amount's currency, "" if it is not an amount."""
        return self.unit if is_currency(self.unit) else ""

    @property
    def most_minor(self) -> int:
        """Return an amount's upper bound."""
        return self.most.minor if isinstance(self.most, Money) else int(self.most)

    @property
    def unit(self) -> str:
        """Return the unit beside the number: EUR, days."""
        return str(getattr(self.most, "currency", self.schema.get("unit", "")))

    def refusal(self, value: Json, typed: Any = None) -> str:
        """Return the refusal of a JSON value, with what is allowed.

        To an amount below its range only the least is said: a tighter bound may be the most.
        """
        allowed = f"At least {self.show(self.least)}." if self._is_below(typed) else self.help
        return f"{self.label} cannot be {self.line(value)[:80]}. {allowed}"

    def show(self, value: Any) -> str:
        """Return a typed value in words, minor units in their currency."""
        unit = self.schema.get("unit", "")
        return with_unit(value, unit) if unit else show(value)

    def text(self, value: Any) -> str:
        """Return a typed value for a form's field: 800.00, 300, 2027-01-21, viewer."""
        if self.currency:
            return plain_amount(int(value), self.currency)
        if self.unit:
            return str(int(value))
        if self.kind == "lines":
            return "\n".join(map(self.line, self.value if value is self.typed else value))
        return value.isoformat() if isinstance(value, date) else str(show(value))

    def read(self, text: str) -> Json:
        """Return typed text as JSON. Raises BadPatch."""
        text = text.strip().replace("\r\n", "\n")
        known = {self.line(one): one for one in self.choices}
        if self.kind == "lines":
            known |= {self.line(one): one for one in self.value}  # left as asked, blanks and all
            lines = [" ".join(line.split()) for line in text.split("\n")]
            return [self._item(line, known) for line in lines if line]
        if not text:
            raise BadPatch(self.name, f"Fill in {self.label}.")
        if self.kind == "choice":
            return self._item(text, known)
        if self.kind != "money":
            return self._scalar(text, self.schema)
        try:
            minor = minor_of_text(text, self.currency)
        except BadAmount as error:
            raise BadPatch(self.name, f"{error}.") from None
        amount = {"amount": plain_amount(minor, self.currency), "currency": self.currency}
        return amount if isinstance(self.most, Money) else minor

    def allows(self, value: Json, typed: Any) -> bool:
        """Tell whether a person may set this value of its type."""
        if self.kind == "choice":
            return is_among(value, self.choices)
        size = len(value) if self.kind in ("text", "lines") else typed
        if not is_ordered(self.least, size, self.most):
            return False
        if self.is_part:
            ahead = iter(self.choices)
            return all(one in ahead for one in value)  # each after the one before
        return not self.choices or (set(value) <= set(self.choices) and len(set(value)) == size)

    def is_above(self, typed: Any) -> bool:
        """Tell whether an amount is of its currency and above its range."""
        return bool(self.currency) and is_ordered(self.most, typed) and typed != self.most

    def _is_below(self, typed: Any) -> bool:
        return bool(self.currency) and is_ordered(typed, self.least) and typed != self.least

    def line(self, one: Json) -> str:
        """Return an item or a choice as a line for reading and typing."""
        return " ".join(in_words(one, self.schema.get("items", self.schema)).split())

    def _item(self, text: str, known: Mapping[str, Json]) -> Json:
        if text in known:
            return known[text]
        if self.choices:
            raise BadPatch(self.name, f"{self.label} cannot be {text!r}. {self.help}")
        return self._scalar(text, self.schema["items"])

    def _scalar(self, text: str, schema: Json) -> Json:
        if schema.get("type") != "integer":
            return text
        if not re.fullmatch(r"-?(0|[1-9][0-9]{0,14})", text, re.ASCII):
            raise BadPatch(self.name, f"{text!r} is not a whole number. {self.help}")
        return int(text)


def open_fields(
    arguments: Arguments,
    may_change: Mapping[str, Change],
    given: Json,
    case: Case,
    choices: Choices = MappingProxyType({}),
) -> list[OpenField]:
    """Return the fields that a person may change in these arguments, with this case's bounds.

    Omitted arguments cannot be added, and those without bounds in this case cannot be changed. Of
    one in `choices` a person has to choose a value, whatever is given.
    """
    args = arguments.read(given)
    written, fields = arguments.write(args), []
    for whole, way in may_change.items():
        for place, hint, how in changes_in(arguments, whole, way):
            typed, value, part = getattr(args, whole), written[whole], place.partition(".")[2]
            schema = _plain(arguments.shown["properties"][whole])
            if part and typed is not None:
                typed, value = getattr(typed, part), value[part]
                schema = _plain(schema["properties"][part])
            if typed is None:
                continue
            try:
                fields.append(_field(place, hint, schema, value, typed, how, case))
            except Exception:  # whatever a company's function does: without a bound it stays closed
                log.exception(
                    "%s: bounds of %s failed; it cannot be changed", arguments.tool, place
                )
    for name, words in choices.items():
        schema = _plain(arguments.shown["properties"][name])
        fields.append(OpenField(name, "choice", schema, None, None, choices=(*words,), words=words))
    return fields


def _plain(schema: Json) -> Json:
    """Return the schema of a value that is not omitted."""
    branches = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return branches[0] if len(branches) == 1 and "type" not in schema else schema


def _field(
    name: str, hint: Any, schema: Json, value: Json, typed: Any, how: Any, case: Case
) -> OpenField:
    kind, is_part = kind_of(hint), isinstance(how, Lower)
    among: tuple[Json, ...] = how.among if isinstance(how, Choose) else ()
    if kind.name == "choice" and is_part:
        first, at = kind.bound_for(how.least, case, kind.order[0]), kind.order.index(typed)
        among = kind.order[min(kind.order.index(first), at) : at + 1]
    if among and kind.name != "lines":
        return OpenField(name, "choice", schema, value, typed, choices=among)
    default = case.today if hint is date else Money(1, typed.currency) if hint is Money else 1
    least = kind.bound_for(getattr(how, "least", None), case, default)
    size = len(typed) if kind.name in ("text", "lines") else typed
    most = kind.bound_for(getattr(how, "most", None), case, len(among) or size)
    if kind.name == "lines":
        choices = tuple(value) if is_part else among or kind.order
        return OpenField(name, "lines", schema, value, typed, least, most, choices, is_part)
    if kind.name == "text":
        least, most = max(least, 1), min(most, schema.get("maxLength", most))
    elif schema.get("type") == "integer":  # within the argument's own bounds too
        least = max(least, schema.get("minimum", least))
        most = min(most, schema.get("maximum", most))
    is_money = is_currency(schema.get("unit", ""))
    return OpenField(name, "money" if is_money else kind.name, schema, value, typed, least, most)
