"""What a person may change of an argument, within which bounds, and the check of what they did."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal, TypeAlias, get_args, get_origin

from agents.core.money import BadAmount, minor_of_text, plain_amount
from agents.core.requests import Json
from agents.core.units import with_unit
from agents.sdk.arguments import Arguments, BadArguments
from agents.sdk.rulings import Case
from agents.sdk.values import Count, Money, show

Bound: TypeAlias = Any  # a value of the argument's type, or a function of the case


class BadPatch(ValueError):
    """A person may not change this so. The message says what they may, `name` of which argument."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


@dataclass(frozen=True)
class Lower:
    """To less, to an earlier day, or back in the order of a choice; never below `least`.

    Without `least` that is today, one minor unit, one, or the first of the choices.
    """

    least: Bound = None


@dataclass(frozen=True)
class Range:
    """To anything from `least` to `most`."""

    least: Bound
    most: Bound


@dataclass(frozen=True)
class Choose:
    """To one of these, which the rules then judge."""

    among: tuple[str, ...]

    def __init__(self, *among: str) -> None:
        object.__setattr__(self, "among", among)


Change: TypeAlias = Lower | Range | Choose
_ORDERED = (int, Decimal, date, Money)


@dataclass(frozen=True)
class OpenField:
    """An argument that a person may change, as a form shows it; values as JSON."""

    name: str
    schema: Json
    value: Json
    typed: Any  # the same, as its function takes it
    least: Any  # typed; None where `choices` say it all
    most: Any
    choices: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return label_of(self.name)

    @property
    def help(self) -> str:
        if self.choices:
            return f"One of {', '.join(self.choices)}."
        return f"From {self.show(self.least)} to {self.show(self.most)}."

    @property
    def currency(self) -> str:
        """Return what an amount is paid in, "" where it is none."""
        return str(getattr(self.most, "currency", self.schema.get("unit", "")))

    def show(self, value: Any) -> str:
        """Return a typed value as people read it, minor units in their currency."""
        unit = self.schema.get("unit", "")
        return with_unit(value, unit) if unit else show(value)

    def text(self, value: Any) -> str:
        """Return a typed value as a form's field holds it: 800.00, 2027-01-21, viewer."""
        if self.currency:
            return plain_amount(int(value), self.currency)
        return value.isoformat() if isinstance(value, date) else show(value)

    def read(self, text: str) -> Json:
        """Return as JSON what a person typed. Raises BadPatch."""
        text = text.strip()
        if not text:
            raise BadPatch(self.name, f"Fill in {self.label}.")
        if self.currency:
            try:
                minor = minor_of_text(text, self.currency)
            except BadAmount as error:
                raise BadPatch(self.name, f"{error}.") from None
            amount = {"amount": plain_amount(minor, self.currency), "currency": self.currency}
            return amount if isinstance(self.most, Money) else minor
        if self.choices and text not in self.choices:
            raise BadPatch(self.name, f"{self.label} cannot be {text!r}. {self.help}")
        if type(self.most) is not int and not isinstance(self.most, Count):
            return text
        if not re.fullmatch(r"-?(0|[1-9][0-9]{0,14})", text, re.ASCII):
            raise BadPatch(self.name, f"{text!r} is not a whole number. {self.help}")
        return int(text)


def label_of(name: str) -> str:
    """Return what people call an argument: Valid until, Amount."""
    return name.removesuffix("_minor").replace("_", " ").capitalize()


def check_change(arguments: Arguments, name: str, how: Change) -> None:
    """Raise TypeError where an argument cannot be changed in this way."""
    hint = bare_type(arguments.hints[name])
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    is_ordered = isinstance(hint, type) and issubclass(hint, _ORDERED) and hint is not bool
    if isinstance(how, Choose) and choices and set(how.among) <= set(choices) and how.among:
        return
    if (isinstance(how, Lower) and (choices or is_ordered)) or (
        isinstance(how, Range) and is_ordered and None not in (how.least, how.most)
    ):
        return
    raise TypeError(f"{arguments.tool}: {name} cannot be changed by {how}")


def open_fields(
    arguments: Arguments, may_change: Mapping[str, Change], given: Json, case: Case
) -> list[OpenField]:
    """Return what a person may change of these arguments, with the bounds of this very case."""
    args = arguments.read(given)
    written = arguments.write(args)
    fields = []
    for name, how in may_change.items():
        value, schema = getattr(args, name), arguments.schema["properties"][name]
        if value is None:
            continue  # what was left out is not put in by a person
        if isinstance(how, Choose):
            fields.append(OpenField(name, schema, value, value, None, None, how.among))
            continue
        order = get_args(bare_type(arguments.hints[name]))
        if order:
            choices = order[: order.index(value) + 1]
            fields.append(OpenField(name, schema, value, value, None, None, choices))
            continue
        least, most = _bounds(how, value, case)
        fields.append(OpenField(name, schema, written[name], value, least, most))
    return fields


def patched(
    arguments: Arguments,
    may_change: Mapping[str, Change],
    given: Json,
    patch: Mapping[str, Json],
    case: Case,
) -> dict[str, Json]:
    """Return the arguments as a person leaves them. Raises BadPatch."""
    may = {field.name: field for field in open_fields(arguments, may_change, given, case)}
    for name in patch:
        if name not in may:
            raise BadPatch(name, f"{label_of(name)} cannot be changed.")
    try:
        args = arguments.read({**given, **patch})
    except BadArguments as error:
        name = str(error).partition(":")[0]
        raise BadPatch(name if name in may else "", f"{error}.") from None
    for name in patch:
        field, value = may[name], getattr(args, name)
        if not _is_within(value, field):
            raise BadPatch(name, f"{field.label} cannot be {field.show(value)}. {field.help}")
    return {**given, **patch}


def _is_within(value: Any, field: OpenField) -> bool:
    if field.choices:
        return value in field.choices
    try:
        return bool(field.least <= value <= field.most)
    except TypeError:  # of another currency, or left out
        return False


def _bounds(how: Lower | Range, value: Any, case: Case) -> tuple[Any, Any]:
    least = _given(how.least, case)
    most = _given(how.most, case) if isinstance(how, Range) else value
    if least is None:
        least = case.today if isinstance(value, date) else _smallest(value)
    return least, most


def _smallest(value: Any) -> Any:
    return Money(1, value.currency) if isinstance(value, Money) else type(value)(1)


def _given(bound: Bound, case: Case) -> Any:
    is_function = isinstance(bound, Callable)  # type: ignore[arg-type]
    return bound(case) if is_function else bound


def bare_type(hint: Any) -> Any:
    """Return a type without its annotations and without None."""
    hint = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    others = [part for part in get_args(hint) if part is not type(None)]
    is_optional = type(None) in get_args(hint) and len(others) == 1
    return bare_type(others[0]) if is_optional else hint
