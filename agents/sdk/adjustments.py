"""How a tool lets people change its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import date
from decimal import Decimal
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


def check_change(arguments: Arguments, name: str, how: Change) -> None:
    """Raise TypeError if an argument cannot be changed in this way."""
    for place, hint, one in _parts(arguments, name, how):
        if no := _refusal(hint, one):
            raise TypeError(f"{arguments.tool}: {place} cannot be changed by {one!r}: {no}")


def _parts(
    arguments: Arguments, name: str, how: Change
) -> Iterator[tuple[str, Any, Lower | Range | Choose]]:
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


def _refusal(hint: Any, how: Lower | Range | Choose) -> str:
    """Return which bounds suit this type if `how` does not, or ""."""
    if is_dataclass(hint) and hint is not Money:
        return "of an object say it of its fields, {'field': Lower()}"
    if not isinstance(how, Lower | Range | Choose):
        return "use Lower(), Range(least, most) or Choose(…)"
    if hint is bool:
        fits = isinstance(how, Lower) or _is_among(how, (True, False))
        return "" if fits else "use Lower(), from yes to no, or Choose(True, False)"
    if choices := choices_of(hint):
        fits = isinstance(how, Lower) or _is_among(how, choices)
        return "" if fits else f"use Lower(), back in their order, or Choose of {choices!r}"
    if hint is str:
        fits = _is_range(how, int) or _is_among(how, of=str)
        return "" if fits else "a text has no order: use Range(1, 140) characters, or Choose('a')"
    if get_origin(hint) is list:
        return _refusal_of_list(bare_type(get_args(hint)[0]), how)
    if isinstance(hint, type) and issubclass(hint, ORDERED):
        is_own = isinstance(how, Lower) and _is_bound(how.least, hint, or_none=True)
        fits = is_own or _is_range(how, hint)
        return "" if fits else f"use Lower() or Range(least, most), both {hint.__name__}"
    return "nobody can change it"


def _refusal_of_list(item: Any, how: Lower | Range | Choose) -> str:
    if isinstance(how, Lower):
        is_count = _is_bound(how.least, int, or_none=True)
        return "" if is_count else "its least is a number of items"
    if not (choices_of(item) or item in PLAIN):
        return "its items can only be left out: use Lower()"
    choices = choices_of(item)
    if isinstance(how, Choose):
        kind = type(choices[0]) if choices else item
        fits = kind in (str, int) and _is_among(how, choices, of=kind)
        return "" if fits else "name items of its type: Choose('a', 'b')"
    return "" if _is_range(how, int) else "its bounds are numbers of items: Range(1, 5)"


def _is_among(
    how: Lower | Range | Choose, choices: tuple[Any, ...] = (), *, of: type[Any] | None = None
) -> bool:
    if not isinstance(how, Choose) or not how.among:
        return False
    if of and any(type(one) is not of for one in how.among):
        return False
    return not choices or all((type(a), a) in [(type(c), c) for c in choices] for a in how.among)


def _is_range(how: Lower | Range | Choose, kind: type[Any]) -> bool:
    if not isinstance(how, Range) or not all(_is_bound(b, kind) for b in (how.least, how.most)):
        return False
    is_known = not (callable(how.least) or callable(how.most))
    return not is_known or _is_ordered(how.least, how.most)


def _is_ordered(least: Any, most: Any) -> bool:
    try:
        return bool(least <= most)
    except TypeError:  # of two currencies
        return False


def _is_bound(bound: Bound, kind: type[Any], *, or_none: bool = False) -> bool:
    """Tell whether a bound is a function of the case, or a value of the type."""
    if bound is None or callable(bound):
        return or_none or bound is not None
    return type(bound) is kind or (issubclass(kind, Count) and type(bound) is int)


def bound_for(bound: Bound, case: Case, kind: type[Any]) -> Any:
    """Return a bound for one case. Raises its function's errors, TypeError for another type."""
    value = bound(case) if isinstance(bound, Callable) else bound  # type: ignore[arg-type]
    if value is not None and not _is_bound(value, kind):
        raise TypeError(f"the bound {value!r} is no {kind.__name__}")
    return kind(value) if issubclass(kind, Count) and value is not None else value


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
