"""What a person may change of an argument, within which bounds, and the check of what they did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any as Anything
from typing import Literal, TypeAlias, get_args, get_origin

from agents.core.requests import Json
from agents.sdk.arguments import Arguments, BadArguments
from agents.sdk.rulings import Case
from agents.sdk.values import Money, show

Bound: TypeAlias = Anything  # a value of the argument's type, or a function of the case


class BadPatch(ValueError):
    """A person may not change this so. The message says what they may."""


@dataclass(frozen=True)
class Lower:
    """To less, to an earlier day, or back in the order of a choice; never below `least`.

    Without `least` that is today, one minor unit, one, or the first of the choices.
    """

    least: Bound = None


@dataclass(frozen=True)
class Any:
    """To anything from `least` to `most`."""

    least: Bound
    most: Bound


@dataclass(frozen=True)
class Choose:
    """To one of these, which the rules then judge."""

    among: tuple[str, ...]

    def __init__(self, *among: str) -> None:
        object.__setattr__(self, "among", among)


Change: TypeAlias = Lower | Any | Choose
_ORDERED = (int, Decimal, date, Money)


@dataclass(frozen=True)
class OpenField:
    """An argument that a person may change, as a form shows it; values as JSON."""

    name: str
    schema: Json
    value: Json
    least: Anything  # typed; None where `choices` say it all
    most: Anything
    choices: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        if self.choices:
            return f"One of {', '.join(self.choices)}."
        return f"From {show(self.least)} to {show(self.most)}."


def check_change(arguments: Arguments, name: str, how: Change) -> None:
    """Raise TypeError where an argument cannot be changed in this way."""
    hint = bare_type(arguments.hints[name])
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    is_ordered = isinstance(hint, type) and issubclass(hint, _ORDERED) and hint is not bool
    if isinstance(how, Choose) and choices and set(how.among) <= set(choices) and how.among:
        return
    if (isinstance(how, Lower) and (choices or is_ordered)) or (
        isinstance(how, Any) and is_ordered and None not in (how.least, how.most)
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
            fields.append(OpenField(name, schema, value, None, None, how.among))
            continue
        order = get_args(bare_type(arguments.hints[name]))
        if order:
            choices = order[: order.index(value) + 1]
            fields.append(OpenField(name, schema, value, None, None, choices))
            continue
        least, most = _bounds(how, value, case)
        fields.append(OpenField(name, schema, written[name], least, most))
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
            raise BadPatch(f"{name} cannot be changed.")
    try:
        args = arguments.read({**given, **patch})
    except BadArguments as error:
        raise BadPatch(f"{error}.") from None
    for name in patch:
        field, value = may[name], getattr(args, name)
        if not _is_within(value, field):
            raise BadPatch(f"{name} cannot be {show(value)}. {field.help}")
    return {**given, **patch}


def _is_within(value: Anything, field: OpenField) -> bool:
    if field.choices:
        return value in field.choices
    try:
        return bool(field.least <= value <= field.most)
    except TypeError:  # of another currency, or left out
        return False


def _bounds(how: Lower | Any, value: Anything, case: Case) -> tuple[Anything, Anything]:
    least = _given(how.least, case)
    most = _given(how.most, case) if isinstance(how, Any) else value
    if least is None:
        least = case.today if isinstance(value, date) else _smallest(value)
    return least, most


def _smallest(value: Anything) -> Anything:
    return Money(1, value.currency) if isinstance(value, Money) else type(value)(1)


def _given(bound: Bound, case: Case) -> Anything:
    is_function = isinstance(bound, Callable)  # type: ignore[arg-type]
    return bound(case) if is_function else bound


def bare_type(hint: Anything) -> Anything:
    """Return a type without its annotations and without None."""
    hint = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    others = [part for part in get_args(hint) if part is not type(None)]
    is_optional = type(None) in get_args(hint) and len(others) == 1
    return bare_type(others[0]) if is_optional else hint
