"""How people may change a tool's arguments: its declaration, and a person's change.

Form, API and command line share the table of open fields: nothing else can be changed.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from agents.core.compat_0_2 import LABELS
from agents.core.money import (
    MAX_MINOR,
    BadAmount,
    is_currency,
    minor_of_text,
    plain_amount,
    with_unit,
)
from agents.core.requests import Json
from agents.sdk.rules import Case
from agents.sdk.values import Arguments, BadArguments, Count, Money, show

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
_ORDERED = (int, Decimal, date, Money)
_PLAIN = (str, int, Decimal, date)  # items that a person writes, one per line


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
        """Return the ways to change it, in words."""
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
            is_known = all(_is_among(one, self.order or how.among) for one in how.among)
            return is_known and {type(one) for one in how.among} == {self.named}
        known = [bound for bound in vars(how).values() if not callable(bound)]
        return how == Lower() or (all(map(self.is_bound, known)) and _is_ordered(*known))

    def is_bound(self, value: Any) -> bool:
        """Tell whether a value can be a bound: of the type, or one of the choices."""
        if self.name == "choice":
            return _is_among(value, self.order)
        return type(value) is self.bound or (issubclass(self.bound, Count) and type(value) is int)

    def bound_for(self, bound: Bound, case: Case, default: Any) -> Any:
        """Return a bound for one case. Raises its function's errors, TypeError for another type."""
        value = bound(case) if callable(bound) else bound
        if value is not None and not self.is_bound(value):
            raise TypeError(f"the bound {value!r} does not suit: {self.use}")
        return default if value is None else value


def kind_of(hint: Any) -> ArgumentKind:
    """Return the kind of a type without annotations."""
    if order := (False, True) if hint is bool else _choices_of(hint):
        return ArgumentKind("choice", (Lower, Choose), named=type(order[0]), order=order)
    if hint is str:
        return ArgumentKind("text", (Range, Choose), named=str)
    if get_origin(hint) is list:
        item = bare_type(get_args(hint)[0])
        order = _choices_of(item)
        named = type(order[0]) if order else item
        counted = (Lower, Range) if order or item in _PLAIN else (Lower,)
        ways = (*counted, Choose) if named in (str, int) else counted
        return ArgumentKind("lines", ways, named=named, order=order)
    if not isinstance(hint, type) or not issubclass(hint, _ORDERED):
        return ArgumentKind("other")
    name = {Money: "money", date: "date"}.get(hint, "number")
    return ArgumentKind(name, (Lower, Range), hint)


def check_change(arguments: Arguments, name: str, how: Change) -> None:
    """Raise TypeError if an argument cannot be changed in this way."""
    for place, hint, one in _changes_in(arguments, name, how):
        if not (kind := kind_of(hint)).takes(one):
            raise TypeError(f"{arguments.tool}: {place} cannot be changed by {one!r}: {kind.use}")


def _changes_in(
    arguments: Arguments, name: str, how: Change
) -> Iterator[tuple[str, Any, Lower | Range | Choose]]:
    """Return the places of a change, until or parcel.weight, each with its type."""
    hint = bare_type(arguments.hints[name])
    if not isinstance(how, Mapping):
        yield name, hint, how
        return
    is_object = is_dataclass(hint) and hint is not Money
    own = get_type_hints(hint, include_extras=True) if is_object else {}
    unknown = sorted(set(how) - set(own))
    if unknown or not how:
        what = (
            f"it has no field {', '.join(unknown)}" if own and how else "name fields of an object"
        )
        raise TypeError(f"{arguments.tool}: {name} cannot be changed by {how!r}: {what}")
    for part, one in how.items():
        yield f"{name}.{part}", bare_type(own[part]), one


def _is_among(value: Json, choices: Sequence[Json]) -> bool:
    """Tell whether a value is one of these, of the same type: 1 is not True."""
    return (type(value), value) in [(type(one), one) for one in choices]


def _is_ordered(*values: Any) -> bool:
    """Tell whether each value is at most the next; False if they cannot be compared."""
    try:
        return all(before <= after for before, after in pairwise(values))
    except TypeError:  # of two currencies, or left out
        return False


def _choices_of(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def bare_type(hint: Any) -> Any:
    """Return a type without its annotations and without None."""
    hint = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    others = [part for part in get_args(hint) if part is not type(None)]
    is_optional = type(None) in get_args(hint) and len(others) == 1
    return bare_type(others[0]) if is_optional else hint


# The arguments that a person may change: their bounds, and their form values.

# For arguments that nobody named: the values to choose from, each in words.
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

    def __init__(self, field: "OpenField", value: Json, left: dict[str, Json]) -> None:
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
    typed: Any  # the same, in the function's type
    least: Any = None  # None if there are only `choices`
    most: Any = None
    choices: tuple[Json, ...] = ()  # of a list: its items
    is_part: bool = False  # items may only be removed, keeping the order
    words: Mapping[str, str] = field(default_factory=dict)  # of each choice, where one is a must
    called: str = ""  # its label, if it is not its name in words

    @property
    def label(self) -> str:
        return self.called or label_of(self.name)

    @property
    def help(self) -> str:
        if self.kind == "choice":
            return f"One of {', '.join(map(self.show, self.choices))}."
        if self.most == MAX_MINOR:
            return f"At least {self.show(self.least)}."
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
        """Return the refusal of a JSON value, with the allowed values.

        For an amount below its range it names only the least: a tighter bound may be the most.
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
            known |= {self.line(one): one for one in self.value}  # unchanged, with blanks
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
            return _is_among(value, self.choices)
        size = len(value) if self.kind in ("text", "lines") else typed
        if not _is_ordered(self.least, size, self.most):
            return False
        if self.is_part:
            ahead = iter(self.choices)
            return all(one in ahead for one in value)  # each after the one before
        return not self.choices or (set(value) <= set(self.choices) and len(set(value)) == size)

    def check(self, number: int) -> None:
        """Raise BadPatch for a number that a person may not set."""
        if not self.allows(number, number):
            raise BadPatch(self.name, self.refusal(number, number))

    def is_above(self, typed: Any) -> bool:
        """Tell whether an amount is of its currency and above its range."""
        return bool(self.currency) and _is_ordered(self.most, typed) and typed != self.most

    def _is_below(self, typed: Any) -> bool:
        return bool(self.currency) and _is_ordered(typed, self.least) and typed != self.least

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
        for place, hint, how in _changes_in(arguments, whole, way):
            typed, value, part = getattr(args, whole), written[whole], place.partition(".")[2]
            schema = _plain(arguments.shown["properties"][whole])
            if part and typed is not None:
                typed, value = getattr(typed, part), value[part]
                schema = _plain(schema["properties"][part])
            if typed is None:
                continue
            try:
                fields.append(_field(place, hint, schema, value, typed, how, case))
            except Exception:  # any error of a company's function: without a bound it stays closed
                log.exception(
                    "%s: bounds of %s failed; it cannot be changed", arguments.tool, place
                )
    for name, words in choices.items():
        schema = _plain(arguments.shown["properties"][name])
        fields.append(OpenField(name, "choice", schema, None, None, choices=(*words,), words=words))
    return fields


def argument_fields(arguments: Arguments, given: Json) -> list[OpenField]:
    """Return a field for each plain argument of a call, with any value; none if it does not fit."""
    try:
        args = arguments.read(given)
    except BadArguments:
        return []
    written, fields = arguments.write(args), []
    for name, hint in arguments.hints.items():
        kind, typed = kind_of(bare_type(hint)), getattr(args, name)
        if typed is None or kind.name == "other":
            continue
        schema, of = _plain(arguments.shown["properties"][name]), getattr(typed, "currency", "")
        least, most = (Money(one, of) if of else one for one in (0, MAX_MINOR))
        named = "money" if is_currency(schema.get("unit", "")) else kind.name
        fields.append(OpenField(name, named, schema, written[name], typed, least, most, kind.order))
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


# A person's changes to a call: read from the form, and checked against the open fields.


def changed_fields(
    fields: Sequence[OpenField], typed: Mapping[str, str], given: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the arguments that differ from the requested ones. Raises BadPatch."""
    patch: dict[str, Json] = {}
    for one in fields:
        text = typed.get(one.name)
        if text is None or text.split() == one.text(one.typed).split():
            continue
        if (value := one.read(text)) == one.value:
            continue
        argument, _, part = one.name.partition(".")
        patch[argument] = (
            {**(patch.get(argument) or given[argument]), part: value} if part else value
        )
    return patch


def apply_patch(
    arguments: Arguments,
    may_change: Mapping[str, Change],
    given: Json,
    patch: Mapping[str, Json],
    case: Case,
    choices: Choices = MappingProxyType({}),
) -> dict[str, Json]:
    """Return the arguments with a person's changes. Raises BadPatch, AmountTooHigh."""
    fields = open_fields(arguments, may_change, given, case, choices)
    may = {one.name.partition(".")[0] for one in fields}
    for name in patch:
        if name not in may:
            raise BadPatch(name, f"{label_of(name)} cannot be changed.")
    left = {**given, **patch}
    try:
        args = arguments.read(left)
    except BadArguments as error:
        name, _, why = str(error).partition(": ")
        known = {one.name: one for one in fields}
        is_known = name in may or name in known
        sentence = f"{label_of(name)}: {why}." if is_known else f"{error}."
        if name in known and error.__cause__:  # the library's words are for programmers
            argument, _, part = name.partition(".")
            value = left[argument]
            sentence = known[name].refusal(value[part] if part else value)
        raise BadPatch(name if is_known else "", sentence) from None
    too_high = None
    rest = {name: left[name] for name in patch}
    for one in fields:
        name, _, part = one.name.partition(".")
        if name not in patch or left[name] == given.get(name):
            continue
        value, typed = left[name], getattr(args, name)
        if part and typed is not None:
            value, typed = value[part], getattr(typed, part)
        if value is None or not one.allows(value, typed):
            if not one.is_above(typed):
                raise BadPatch(one.name, one.refusal(value, typed))
            too_high = too_high or AmountTooHigh(one, value, left)
        if part:
            rest[name] = {**rest[name], part: one.value}
    for name, value in rest.items():
        if isinstance(may_change.get(name), Mapping) and value != given[name]:
            raise BadPatch(name, f"{label_of(name)} can be changed in part only.")
    if too_high:
        raise too_high
    return left


# Words for arguments come from stored values, not from a desk's types, so that they stay readable
# after a desk has changed or was removed.

# The names of a call's values: by argument, then by value.
Called: TypeAlias = Mapping[str, Mapping[str, str]]
_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def with_name(text: str, name: str) -> str:
    """Return a key with its name: Papier Hansen (P-102)."""
    return f"{name} ({text})" if name else text


def in_words(value: Json, schema: Mapping[str, Json] | None = None) -> str:
    """Return a stored value in words."""
    known = schema or {}
    if isinstance(value, dict):
        return _object(value, known)
    if isinstance(value, list):
        return ", ".join(in_words(item, known.get("items")) for item in value) or "none"
    if known.get("unit") and isinstance(value, int):
        return with_unit(value, known["unit"])
    if isinstance(value, str) and _is_day(known) and _ISO_DAY.fullmatch(value):
        try:
            return show(date.fromisoformat(value))
        except ValueError:
            return value
    return show(value)


def _is_day(schema: Mapping[str, Json]) -> bool:
    return any(one.get("format") == "date" for one in (schema, *schema.get("anyOf", ())))


def _object(value: Mapping[str, Json], schema: Mapping[str, Json]) -> str:
    if money := money_of(value):
        return str(money)
    properties = schema.get("properties", {})
    parts = (f"{label_of(k)}: {in_words(v, properties.get(k))}" for k, v in value.items())
    return "; ".join(parts) or "none"


def money_of(value: Json) -> Money | None:
    """Return a stored amount and its currency, or None for anything else."""
    if not isinstance(value, dict) or set(value) != {"amount", "currency"}:
        return None
    try:
        return Money.of(str(value["amount"]), str(value["currency"]))
    except (ValueError, ArithmeticError):
        return None
