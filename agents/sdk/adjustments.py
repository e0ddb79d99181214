"""How a tool lets people change its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from agents.core.old_names import LABELS
from agents.core.requests import Json
from agents.sdk.arguments import Arguments
from agents.sdk.rule_case import Case
from agents.sdk.values import Count, Money

Bound: TypeAlias = Any  # a value of the argument's type, or a function of the case


@dataclass(frozen=True)
class Lower:
    """To less, earlier, back in the order of a choice, from yes to no, or to fewer items.

    Never below `least`, by default one minor unit, today, one, the first choice, one item.
    """

    least: Bound = None


@dataclass(frozen=True)
class Range:
    """To anything from `least` to `most`, counting a text's characters and a list's items."""

    least: Bound
    most: Bound


@dataclass(frozen=True)
class Choose:
    """To one of these, or in a list to some of these; the rules then judge it."""

    among: tuple[Json, ...]

    def __init__(self, *among: Json) -> None:
        object.__setattr__(self, "among", among)


# For an object: how each of its fields may be changed, by name.
Change: TypeAlias = Lower | Range | Choose | Mapping[str, "Lower | Range | Choose"]
ORDERED = (int, Decimal, date, Money)
PLAIN = (str, int, Decimal, date)  # what a list may hold that a person writes anew, a line each


def label_of(name: str) -> str:
    """Return the label of an argument: Valid until, Amount."""
    words = name.removesuffix("_minor").replace("_", " ").replace(".", ": ").capitalize()
    return LABELS.get(name, words)


@dataclass(frozen=True)
class ArgumentKind:
    """A kind of argument, and how people may change it."""

    name: str  # choice, money, date, number, text, lines (a list, an item a line), or other
    ways: tuple[type, ...] = ()
    bound: Any = int  # the type of a bound; texts and lists are counted
    named: Any = str  # the type of what Choose names
    order: tuple[Json, ...] = ()  # the choices; of a list, those of its items

    @property
    def use(self) -> str:
        """Return in words how it may be changed."""
        if not self.ways:
            return "nobody can change it; of an object say it of its fields, {'field': Lower()}"
        of = {"text": "characters", "lines": "items"}.get(self.name, self.bound.__name__)
        named = getattr(self.named, "__name__", "")
        words = {
            Lower: "Lower()",
            Range: f"Range(least, most) of {of}",
            Choose: f"Choose of {self.order or named}",
        }
        return f"use {' or '.join(words[way] for way in self.ways)}"

    def takes(self, how: Any) -> bool:
        """Tell whether it may be changed in this way, with these bounds."""
        if type(how) not in self.ways:
            return False
        if isinstance(how, Choose):
            is_known = all(is_among(one, self.order or how.among) for one in how.among)
            return is_known and {type(one) for one in how.among} == {self.named}
        known = [bound for bound in vars(how).values() if not callable(bound)]
        return how == Lower() or (all(map(self.is_bound, known)) and is_ordered(*known))

    def is_bound(self, value: Any) -> bool:
        """Tell whether a value can be a bound: of the type, or one of the choices."""
        if self.name == "choice":
            return is_among(value, self.order)
        return type(value) is self.bound or (issubclass(self.bound, Count) and type(value) is int)

    def bound_for(self, bound: Bound, case: Case, default: Any) -> Any:
        """Return a bound for one case. Raises its function's errors, TypeError for another type."""
        value = bound(case) if callable(bound) else bound
        if value is not None and not self.is_bound(value):
            raise TypeError(f"the bound {value!r} does not suit: {self.use}")
        return default if value is None else value


def kind_of(hint: Any) -> ArgumentKind:
    """Return the kind of a type without annotations."""
    if order := (False, True) if hint is bool else choices_of(hint):
        return ArgumentKind("choice", (Lower, Choose), named=type(order[0]), order=order)
    if hint is str:
        return ArgumentKind("text", (Range, Choose), named=str)
    if get_origin(hint) is list:
        item = bare_type(get_args(hint)[0])
        order = choices_of(item)
        named = type(order[0]) if order else item
        counted = (Lower, Range) if order or item in PLAIN else (Lower,)
        ways = (*counted, Choose) if named in (str, int) else counted
        return ArgumentKind("lines", ways, named=named, order=order)
    if not isinstance(hint, type) or not issubclass(hint, ORDERED):
        return ArgumentKind("other")
    name = {Money: "money", date: "date"}.get(hint, "number")
    return ArgumentKind(name, (Lower, Range), hint)


def check_change(arguments: Arguments, name: str, how: Change) -> None:
    """Raise TypeError if an argument cannot be changed in this way."""
    for place, hint, one in changes_in(arguments, name, how):
        if not (kind := kind_of(hint)).takes(one):
            raise TypeError(f"{arguments.tool}: {place} cannot be changed by {one!r}: {kind.use}")


def changes_in(
    arguments: Arguments, name: str, how: Change
) -> Iterator[tuple[str, Any, Lower | Range | Choose]]:
    """Return the places of a change, until or parcel.weight, each with its type."""
    hint = bare_type(arguments.hints[name])
    if not isinstance(how, Mapping):
        yield name, hint, how
        return
    own = hints_of(hint)
    unknown = sorted(set(how) - set(own))
    if unknown or not how:
        what = (
            f"it has no field {', '.join(unknown)}" if own and how else "name fields of an object"
        )
        raise TypeError(f"{arguments.tool}: {name} cannot be changed by {how!r}: {what}")
    for field, one in how.items():
        yield f"{name}.{field}", bare_type(own[field]), one


def is_among(value: Json, choices: Sequence[Json]) -> bool:
    """Tell whether a value is one of these, of the same type: 1 is not True."""
    return (type(value), value) in [(type(one), one) for one in choices]


def is_ordered(*values: Any) -> bool:
    """Tell whether each value is at most the next; False if they cannot be compared."""
    try:
        return all(before <= after for before, after in pairwise(values))
    except TypeError:  # of two currencies, or left out
        return False


def choices_of(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def hints_of(hint: Any) -> dict[str, Any]:
    """Return the types of an object's fields; {} if it is not an object."""
    is_object = is_dataclass(hint) and hint is not Money
    return get_type_hints(hint, include_extras=True) if is_object else {}


def bare_type(hint: Any) -> Any:
    """Return a type without its annotations and without None."""
    hint = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    others = [part for part in get_args(hint) if part is not type(None)]
    is_optional = type(None) in get_args(hint) and len(others) == 1
    return bare_type(others[0]) if is_optional else hint
