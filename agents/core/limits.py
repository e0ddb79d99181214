"""A policy version as data: its rules and limits.

The document is plain JSON, checked here once, immutable once published, pinned by each run.
One table of limits, each with its meaning and range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

from agents.core.former import CURRENCY, FIRST_DESK, LIMITS, SUBJECT
from agents.core.money import MAX_MINOR
from agents.core.redact import GONE, KINDS, OFF, TREATMENTS
from agents.core.requests import Json
from agents.core.tiers import BadTiers, Tiers, read_tiers, tiers_of


class BadPolicy(ValueError):
    """The policy document cannot be used. The message says which key and why."""


# A declared desk's daily (UTC) caps by currency, in minor units: on what is paid without a person,
# for one launcher and in all, and on what one person may grant.
CAPS = BY_LAUNCHER, IN_WORKSPACE, BY_REVIEWER = (
    "launcher_daily_minor",
    "workspace_daily_minor",
    "reviewer_daily_minor",
)
Overrides: TypeAlias = Mapping[str, Mapping[str, Json]]
Redaction: TypeAlias = Mapping[str, str]  # by kind of personal data: see core.redact


@dataclass(frozen=True)
class LimitField:
    """One limit as its desk declares it."""

    name: str
    label: str
    help: str
    unit: str
    default: Json
    schema: Json


# Of the first desk, whose limits stand among those of the whole policy: it enters them.
FIRST_LIMITS: dict[str, LimitField] = {}


@dataclass(frozen=True)
class ReferenceQuirks:
    """Behaviour of the reference implementation that no policy of your own needs.

    A policy document lists them among the limits.
    """

    told_limit_minor: int | None = None  # what the worker is told of it; None: the limit itself
    finalize: bool = False  # after the last step ask for a closing text, as the reference does
    errors_fail: bool = True  # a tool that answers "error" shows as not ok in the trace
    late_calls: bool = False  # out of time, a call under way is still finished and acted upon
    forget_refusals: bool = False  # only the last specialist that refused is forbidden
    null_is_none: bool = False  # an incident that a source leaves empty counts as none
    loose_topics: bool = False  # a specialist takes a ticket for a keyword within any word
    self_reported: bool = False  # a step drifts only where its agent says so itself
    marker_word: bool = False  # a convergence ends where its agent writes CONVERGED


@dataclass(frozen=True)
class Limits:
    """All limits of a policy version. Amounts in minor units, times in seconds."""

    profile: str  # strict or reference: a label; what differs is the rules and this data
    rules: tuple[str, ...]
    proposable: tuple[str, ...]  # tools a model may propose
    executable: tuple[str, ...]  # tools the gateway may call
    max_steps: int = 8
    max_tool_calls: int = 5
    max_blocks: int = 0  # told to the agent, which may propose something else; the next one ends it
    max_send_backs: int = 0  # times in a run that a person may send a request back to its agent
    max_empty_ends: int = 0  # ends asked about: claims, where nothing was done, blocked or asked
    max_seconds: float = 30  # of active time; waiting for a person does not count
    max_tokens: int = 60_000
    max_cost_micro_usd: int = 500_000
    rolling_days: int = 30  # over which what nobody saw, and what one reviewer granted, adds up
    # What goes out without a person in a day (UTC), beyond which one is asked; None: no cap.
    launcher_daily_minor: int | None = 100_000_000
    workspace_daily_minor: int | None = 500_000_000
    reviewer_daily_minor: int | None = None  # what one person may grant in a day (UTC)
    # Requests that wait at the same time, of one launcher and about one subject; None: no cap.
    open_per_launcher: int | None = 1000
    open_per_subject: int | None = 20
    escalation_seconds: int = 24 * 3600
    four_eyes: bool = True  # who launched a run may not decide its escalations
    tool_calls: Mapping[str, int] | None = None  # calls of one tool in a run; absent: DEFAULT
    tool_repeats: Mapping[str, int] | None = None  # calls with the same arguments
    call_seconds: float = 600  # of one call of a tool; the tool's own limit may be shorter
    call_attempts: int = 2  # of a task; only one that took too long is tried again
    at_once: int = 3  # tasks side by side
    required: tuple[str, ...] = ()  # workers that every plan must use
    critical: tuple[str, ...] = ()  # workers without whom there is no report, whatever a plan says
    about: str = SUBJECT  # or "day": what a run is bound to from its launch on
    late: tuple[str, ...] = ()  # out of time, these models and tools are still heard
    outlasts_outages: bool = True  # a run waits for a model's server that fails; else it stops
    hand_over: bool = True  # a case that no specialist takes is put to people
    max_reorients: int = 1  # times that a judge may have one step run again
    inbox: bool = True  # there are people to ask; without them what wants one stops
    judge: bool = True  # a model may judge steps; without one no step can be supervised
    redaction: Redaction = field(default_factory=lambda: dict.fromkeys(KINDS, OFF))
    reference: ReferenceQuirks = ReferenceQuirks()
    first: Mapping[str, Json] = field(default_factory=dict)  # of FIRST_LIMITS; absent: its default
    patterns: Overrides | None = None  # what is different for one pattern, by its name
    desks: Overrides | None = None  # rules, tools and limits of each declared desk, by its name
    tiers: Overrides | None = None  # who may grant which amounts, by desk and currency: core.tiers

    @cached_property
    def typed(self) -> dict[object, Any]:
        """Return the limits of desks as their own types, by desk: who reads them keeps them."""
        return {}

    def calls_of(self, tool: str) -> int:
        return (self.tool_calls or {}).get(tool, 2)

    def repeats_of(self, tool: str) -> int:
        return (self.tool_repeats or {}).get(tool, 1)

    def of(self, pattern: str, desk: str = FIRST_DESK) -> Limits:
        """Return the limits of runs of one pattern at one desk.

        A desk that is not in the policy has no rules, so that all its proposals are blocked.
        """
        if desk != FIRST_DESK:
            part = (self.desks or {}).get(desk, {})
            own = {**part, **part.get("patterns", {}).get(pattern, {})}
            own = {key: _freeze(value) for key, value in own.items() if key not in _OF_DESK}
            tools = own.pop("tools", ())
            here = replace(self, proposable=tools, executable=tools, **{"rules": (), **own})
            about = "day" if pattern == "orchestrator" else SUBJECT
            return replace(here, about=about, patterns=None, desks={desk: part})
        own = {key: _freeze(value) for key, value in (self.patterns or {}).get(pattern, {}).items()}
        if "redaction" in own:
            own["redaction"] = _read_redaction(own["redaction"])
        quirks = {name: own.pop(name) for name in _QUIRKS & own.keys()}
        reference = replace(self.reference, **quirks) if quirks else self.reference
        first = {**self.first, **{name: own.pop(name) for name in FIRST_LIMITS.keys() & own.keys()}}
        return replace(self, **{**own, "reference": reference, "first": first, "patterns": None})

    def first_limit(self, name: str) -> Json:
        """Return a limit of the first desk."""
        return self.first.get(name, FIRST_LIMITS[name].default)

    def covers(self, desk: str, pattern: str = "") -> bool:
        """Tell whether there are rules for a desk and, if one is named, for its pattern."""
        if desk != FIRST_DESK:
            part = (self.desks or {}).get(desk)
            own = {"", "supervisor", *(part or {}).get("patterns", ())}
            return part is not None and pattern in own
        return bool(self.rules or any(own.get("rules") for own in (self.patterns or {}).values()))

    def caps_of(self, desk: str) -> Mapping[str, Mapping[str, int]]:
        """Return a desk's daily caps by currency and name; a missing one means no cap."""
        if desk != FIRST_DESK:
            caps: Json = (self.desks or {}).get(desk, {}).get("caps", {})
            return dict(caps)
        if not self.covers(desk):
            return {}
        own = {name: getattr(self, name) for name in CAPS}
        return {CURRENCY: {name: most for name, most in own.items() if most is not None}}

    def tiers_of(self, desk: str, currency: str) -> Tiers | None:
        """Return a desk's tiers in a currency; None if it has none, () if only in others."""
        return tiers_of(self.tiers, desk, currency) if self.tiers else None

    def as_json(self) -> dict[str, Json]:
        flat = asdict(self)
        flat |= flat.pop("reference")
        flat |= {name: one.default for name, one in FIRST_LIMITS.items()} | flat.pop("first")
        for name in ("desks", "tiers"):  # to the letter what it was before there were any
            if flat[name] is None:
                del flat[name]
        for name in ("max_send_backs", "max_empty_ends"):
            if not flat[name]:
                del flat[name]
        return {key: list(v) if isinstance(v, tuple) else v for key, v in flat.items()}


_QUIRKS = frozenset(field.name for field in fields(ReferenceQuirks))
# What a policy document may hold, by its name there.
KEYS = {
    f.name: str(f.type)
    for of in (Limits, ReferenceQuirks)
    for f in fields(of)
    if f.name not in ("reference", "first")
}
_KINDS = {"integer": "int", "boolean": "bool"}  # of a limit of the first desk
# What a desk's part holds, and what may differ in one of its patterns: their names, and limits.
_NAMES, _OF_DESK = ("rules", "tools"), ("limits", "caps", "patterns")
OF_PATTERN = (
    *("max_steps", "max_tool_calls", "max_blocks", "max_send_backs", "max_empty_ends"),
    "max_seconds",
    *("max_tokens", "max_cost_micro_usd", "tool_calls", "tool_repeats", "call_seconds"),
    *("call_attempts", "at_once", "required", "critical", "late", "hand_over", "max_reorients"),
)


def read_limits(document: Json) -> Limits:
    """Return the limits a policy document holds. Raises BadPolicy."""
    if not isinstance(document, dict):
        raise BadPolicy("A policy is a JSON object.")
    document = _rename_keys(document)
    kinds = KEYS | {name: _KINDS[one.schema["type"]] for name, one in FIRST_LIMITS.items()}
    for key in document:
        if key not in kinds:
            raise BadPolicy(f"A policy has no {key!r}; it has {', '.join(sorted(kinds))}.")
    read = {key: _value(key, kinds[key], value) for key, value in document.items()}
    first = {name: read.pop(name) for name in FIRST_LIMITS.keys() & read.keys()}
    first = {name: value for name, value in first.items() if value != FIRST_LIMITS[name].default}
    try:
        quirks = ReferenceQuirks(**{name: read.pop(name) for name in _QUIRKS & read.keys()})
        limits = Limits(**read, reference=quirks, first=first)
    except TypeError as error:
        raise BadPolicy(f"The policy is not complete: {error}.") from None
    for desk, part in (limits.desks or {}).items():
        _check_desk(desk, part)
    try:
        read_tiers(limits.tiers or {})
    except BadTiers as error:
        raise BadPolicy(str(error)) from None
    for own in (limits.patterns or {}).values():
        if "patterns" in own or "profile" in own:
            raise BadPolicy("A pattern has neither patterns nor a profile of its own.")
        read_limits({**document, "patterns": None, **own})
    return limits


def _check_desk(desk: str, part: Mapping[str, Json]) -> None:
    """Raise BadPolicy for a desk's part of a policy that cannot be used."""
    _check_names(desk, part)
    if unknown := sorted(set(part) - {*_NAMES, *_OF_DESK}):
        known = ", ".join((*_NAMES, *_OF_DESK))
        raise BadPolicy(f"The desk {desk!r} has no {unknown[0]!r}; it has {known}.")
    caps, patterns = part.get("caps", {}), part.get("patterns", {})
    if not _all_objects(caps) or not all(map(_are_caps, caps.values())):
        raise BadPolicy(f"Caps of the desk {desk!r}, by currency, are {', '.join(CAPS)}.")
    if not _all_objects(patterns):
        raise BadPolicy(f"The desk {desk!r} has an object for each of its patterns.")
    for pattern, own in patterns.items():
        _check_names(f"{desk}, {pattern}", own)
        for key in own.keys() - set(_NAMES):
            if key not in OF_PATTERN:
                known = ", ".join((*_NAMES, *OF_PATTERN))
                raise BadPolicy(f"{pattern} at the desk {desk!r} has no {key!r}; it has {known}.")
            _value(key, KEYS[key], own[key])


def _check_names(where: str, part: Mapping[str, Json]) -> None:
    for key in _NAMES:
        if not isinstance(part.get(key, []), list) or not _all_names(part.get(key, [])):
            raise BadPolicy(f"The desk {where!r}: {key} is a list of names.")


def _rename_keys(document: dict[str, Json]) -> dict[str, Json]:
    """Return a document with present names, in its patterns too."""
    found = {LIMITS.get(key, key): value for key, value in document.items()}
    if isinstance(own := found.get("patterns"), dict):
        found["patterns"] = {
            pattern: _rename_keys(limits) if isinstance(limits, dict) else limits
            for pattern, limits in own.items()
        }
    return found


def _read_redaction(value: Json) -> Redaction:
    """Return what becomes of each kind. A list, as policies had before names, says what is gone."""
    if isinstance(value, list | tuple):
        value = {**dict.fromkeys(KINDS, OFF), **dict.fromkeys(value, GONE)}
    if not isinstance(value, dict):
        raise BadPolicy(f"redaction cannot be {value!r}: it says of each kind what becomes of it.")
    for kind, treatment in value.items():
        if kind not in KINDS:
            raise BadPolicy(f"redaction has no {kind!r}; it has {', '.join(KINDS)}.")
        if treatment not in TREATMENTS:
            raise BadPolicy(f"{kind} cannot be {treatment!r}: it is {', '.join(TREATMENTS)}.")
    if silent := [kind for kind in KINDS if kind not in value]:  # nothing is let pass by a slip
        raise BadPolicy(f"redaction does not say what becomes of {', '.join(silent)}.")
    return {kind: value[kind] for kind in KINDS}


def _freeze(value: Json) -> Json:
    return tuple(value) if isinstance(value, list) else value


def _value(key: str, kind: str, value: Json) -> Json:
    """Check one value against its field's annotation, and return it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_whole = is_number and isinstance(value, int) and 0 <= value <= _MOST.get(key, MAX_MINOR)
    if kind == "int" and is_whole:
        return value
    if kind == "int | None" and (value is None or is_whole):
        return value
    if kind == "float" and is_number and 0 <= value < 10**9:
        return value
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "str" and isinstance(value, str) and value:
        return value
    if kind == "Redaction":
        return _read_redaction(value)
    if kind.startswith("tuple") and isinstance(value, list | tuple) and _all_names(value):
        return tuple(value)
    if kind.startswith("Overrides") and (value is None or _all_objects(value)):
        return value
    if kind.startswith("Mapping") and (value is None or _all_counts(value)):
        return value
    raise BadPolicy(f"{key} cannot be {value!r}: it takes {_WANTED[kind.partition('[')[0]]}.")


def _all_names(value: Json) -> bool:
    return all(isinstance(item, str) and item for item in value)


def _all_objects(value: Json) -> bool:
    return isinstance(value, dict) and all(isinstance(own, dict) for own in value.values())


def _are_caps(caps: Json) -> bool:
    return not set(caps) - set(CAPS) and _all_counts(caps)


def _all_counts(value: Json) -> bool:
    return isinstance(value, dict) and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MAX_MINOR
        for n in value.values()
    )


_MOST = {"escalation_seconds": 36500 * 86400, "rolling_days": 36500}  # no calendar has 2**53
_WANTED = {
    "int": "a whole number from 0, of times at most a hundred years",
    "int | None": "a whole number from 0, or null",
    "float": "a number of seconds from 0",
    "bool": "true or false",
    "str": "a name",
    "tuple": "a list of names",
    "Mapping": "an object of tool names and counts",
    "Overrides | None": "an object of names, and an object for each of them",
}
