"""Faults that no new version may have: values out of bounds, and missing rules of the floor."""

from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

from agents.core.limits import (
    BY_LAUNCHER,
    EACH_DESK,
    IN_WORKSPACE,
    LIMITS,
    Limits,
    read_limits,
    strict,
)
from agents.core.money import format_money
from agents.core.requests import Json
from agents.policies.words import floor_of, words_of
from agents.publishing.words import CAPS, told
from agents.sdk.desk import DESKS, Desk
from agents.sdk.values import BadValue, Money, read_stored
from agents.shell.formats import desk_title


class PolicyFault(NamedTuple):
    """Why a version is not published: a sentence that names a field by its label."""

    field: str  # its place in the document, with points between its keys
    where: str  # its desk and pattern; "" for all
    sentence: str

    def __str__(self) -> str:
        return f"{self.where}: {self.sentence}" if self.where else self.sentence


def new_faults(limits: Limits, in_force: Limits | None) -> list[PolicyFault]:
    """Return the faults of a version that the one in force does not have.

    A fault of a whole desk is not told again for each of its patterns.
    """
    had = {*faults(in_force)}
    found: dict[tuple[str, str], PolicyFault] = {}
    for one in faults(limits):
        if one not in had:
            found.setdefault((one.field.split(".")[1], one.sentence), one)
    return [*found.values()]


def faults(limits: Limits | None) -> Iterator[PolicyFault]:
    """Yield the faults of a version that can be read, at desks that are installed here."""
    if limits is None:
        return
    of_all = [name for name, one in LIMITS.items() if one.topic != EACH_DESK]
    yield from _out_of_bounds("policy.", "", limits, of_all)
    for name, pattern, place, where, here in _parts(limits):
        held = limits.part_of(name, "patterns")[pattern] if pattern else limits.desks[name]
        yield from _out_of_bounds(place, where, here, held)
        if not pattern or "limits" in held:
            yield from _of_desk(DESKS[name], place, where, here)
        yield from _of_caps(name, place, where, here, DESKS[name].part().get("caps", {}))
    yield from (fault for *_, fault in missing_rules(limits))


def missing_rules(limits: Limits) -> Iterator[tuple[str, str, str, PolicyFault]]:
    """Yield desk, pattern, name and fault of each rule that no version may leave out."""
    for name, pattern, place, where, here in _parts(limits):
        for rule in strict({name: DESKS[name].part()}).of(pattern, name).rules:
            if rule not in here.rules and (why := floor_of(DESKS[name], rule, here)):
                text = f"The rule “{words_of(rule)[0]}” is missing. {why}"
                yield name, pattern, rule, PolicyFault(f"{place}rules.{rule}", where, text)


def _parts(limits: Limits) -> Iterator[tuple[str, str, str, str, Limits]]:
    """Yield desk, pattern, place in the document, title and limits of each part of a version."""
    for name in [name for name in DESKS if name in limits.desks]:
        yield name, "", f"desks.{name}.", desk_title(name), limits.of("", name)
        for pattern in limits.part_of(name, "patterns"):
            place, where = f"desks.{name}.patterns.{pattern}.", f"{desk_title(name)}, {pattern}"
            yield name, pattern, place, where, limits.of(pattern, name)


def with_floor(document: Json) -> Json:
    """Return a document with the rules that a published one may not leave out. Raises BadPolicy."""
    mended = deepcopy(document)
    while missing := next(missing_rules(read_limits(mended)), None):
        desk, pattern, rule, _ = missing
        part = mended["desks"][desk]
        part = part["patterns"][pattern] if pattern else part
        part["rules"] = [*read_limits(mended).of(pattern, desk).rules, rule]
    return mended


def _out_of_bounds(
    place: str, where: str, limits: Limits, names: Collection[str]
) -> Iterator[PolicyFault]:
    """Yield the console's limits among `names` that are below the least."""
    for one in [LIMITS[name] for name in names if name in LIMITS]:
        value = getattr(limits, one.name, None) if one.least is not None else None
        if value is not None and value < one.least:
            least = told(one, replace(limits, **{one.name: one.least}))
            text = f"“{one.label}” is {told(one, limits)}; the least is {least}."
            yield PolicyFault(f"{place}{one.name}", where, text)


def _of_desk(desk: Desk, place: str, where: str, limits: Limits) -> Iterator[PolicyFault]:
    """Yield a desk's own limits that are below 0, above their most, or above another one."""
    if desk.limits_type is None:
        return
    try:
        typed = read_stored(desk.limits_type, limits.part_of(desk.name, "limits"))
    except BadValue:  # an older version's; a new one is refused before
        return
    labels = {one.name: one.label for one in desk.limit_fields}
    for one in desk.limit_fields:
        value, field = getattr(typed, one.name), f"{place}limits.{one.name}"
        number = value.minor if isinstance(value, Money) else value
        if isinstance(number, int) and number < 0:
            yield PolicyFault(field, where, f"“{one.label}” is {value}; the least is 0.")
        if one.most is not None and value > one.most:
            text = f"“{one.label}” is {value}; the most is {one.most}."
            yield PolicyFault(field, where, text)
        if one.below and value > (most := getattr(typed, one.below)):
            yield PolicyFault(field, where, _above(one.label, labels[one.below], str(most)))


def _of_caps(
    name: str, place: str, where: str, limits: Limits, own: Collection[str]
) -> Iterator[PolicyFault]:
    """Yield the currencies without a daily cap, and caps of a launcher above the workspace's."""
    caps = limits.caps_of(name)
    for currency, held in (caps or {currency: {} for currency in own}).items():
        launcher, workspace = held.get(BY_LAUNCHER), held.get(IN_WORKSPACE)
        field = f"{place}caps.{currency}."
        if launcher is None and workspace is None and own:
            text = f"“{CAPS[IN_WORKSPACE]}” has no amount in {currency}, so nothing limits a day."
            yield PolicyFault(f"{field}{IN_WORKSPACE}", where, text)
        elif launcher is not None and workspace is not None and launcher > workspace:
            labels = CAPS[BY_LAUNCHER], CAPS[IN_WORKSPACE]
            text = _above(*labels, format_money(workspace, currency))
            yield PolicyFault(f"{field}{BY_LAUNCHER}", where, text)


def _above(label: str, other: str, most: str) -> str:
    return f"“{label}” is above “{other}”, {most}. Enter {most} or less, or raise that limit."
