"""A policy version as data: its rules and limits; budgets of a run and pauses before a retry.

The document is plain JSON, checked here once, immutable once published, pinned by each run.
One table of limits, each with its meaning and range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

from agents.core.decisions import BadTiers, Tiers, read_tiers, tiers_of
from agents.core.json_forms import args_hash
from agents.core.money import MAX_MINOR, to_model_units
from agents.core.old_names import policy_document
from agents.core.redact import CARDS, EMAILS, GONE, IBANS, KINDS, NAME, OFF, TREATMENTS
from agents.core.requests import Json


class BadPolicy(ValueError):
    """The policy document cannot be used. The message says which key and why."""


# A desk's daily (UTC) caps by currency, in minor units: on what is paid without a person,
# for one launcher and in all, and on what one person may grant.
CAPS = BY_LAUNCHER, IN_WORKSPACE, BY_REVIEWER = (
    "launcher_daily_minor",
    "workspace_daily_minor",
    "reviewer_daily_minor",
)
EXTERNAL = "external"  # the pattern of runs that an agent elsewhere drives
_CALLS_OF_SESSION = 200  # of such an agent, where its policy says nothing else
ANY_TOOL = "*"  # in tool_calls and tool_repeats: each tool that they do not name
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


@dataclass(frozen=True)
class ReferenceQuirks:
    """Behaviour of the reference implementation that no policy of your own needs.

    A policy document lists them among the limits.
    """

    finalize: bool = False  # after the last step ask for a closing text, as the reference does
    errors_fail: bool = True  # a tool that answers "error" shows as not ok in the trace
    late_calls: bool = False  # out of time, a call under way is still finished and acted upon
    forget_refusals: bool = False  # only the last specialist that refused is forbidden
    self_reported: bool = False  # a step drifts only where its agent says so itself
    marker_word: bool = False  # a convergence ends where its agent writes CONVERGED


@dataclass(frozen=True)
class Limits:
    """All limits of a policy version, or of runs of one pattern at one desk: see `of`.

    Amounts are in minor units, times in seconds.
    """

    profile: str  # strict or reference: a label; what differs is the rules and this data
    max_steps: int = 8
    max_tool_calls: int = 5
    max_blocks: int = 0  # told to the agent, which may propose something else; the next one ends it
    max_send_backs: int = 0  # times in a run that a person may send a request back to its agent
    max_empty_ends: int = 0  # ends asked about: claims, where nothing was done, blocked or asked
    max_seconds: float = 30  # of active time; waiting for a person does not count
    max_tokens: int = 60_000
    max_cost_micro_usd: int = 500_000
    # Requests that wait at the same time, of one launcher and about one subject; None: no cap.
    open_per_launcher: int | None = 1000
    open_per_subject: int | None = 20
    escalation_seconds: int = 24 * 3600
    four_eyes: bool = True  # who launched a run may not decide its escalations
    call_seconds: float = 600  # of one call of a tool; the tool's own limit may be shorter
    call_attempts: int = 2  # of a task; only one that took too long is tried again
    at_once: int = 3  # tasks side by side
    late: tuple[str, ...] = ()  # out of time, these models and tools are still heard
    outlasts_outages: bool = True  # a run waits for a model's server that fails; else it stops
    finishes_letters: bool = True  # a letter that is owed is still written once time is up
    hand_over: bool = True  # a case that no specialist takes is put to people
    max_reorients: int = 1  # times that a judge may have one step run again
    inbox: bool = True  # there are people to ask; without them what wants one stops
    judge: bool = True  # a model may judge steps; without one no step can be supervised
    redaction: Redaction = field(default_factory=lambda: dict.fromkeys(KINDS, OFF))
    reference: ReferenceQuirks = ReferenceQuirks()
    desks: Overrides = field(default_factory=dict)  # each desk's part, by its name: OF_DESK
    tiers: Overrides | None = None  # who may grant which amounts, see core.decisions
    # What a desk's part says, for one pattern; a whole version has none of it.
    rules: tuple[str, ...] = ()
    proposable: tuple[str, ...] = ()  # tools a model may propose
    executable: tuple[str, ...] = ()  # tools the gateway may call
    tool_calls: Mapping[str, int] | None = None  # calls of one tool in a run; absent: DEFAULT
    tool_repeats: Mapping[str, int] | None = None  # calls with the same arguments
    rolling_days: int = 30  # over which what nobody saw, and what one reviewer granted, adds up
    required: tuple[str, ...] = ()  # workers that every plan must use
    critical: tuple[str, ...] = ()  # workers without whom there is no report, whatever a plan says
    calls_per_minute: int = 120  # of one agent elsewhere, over all its sessions
    idle_seconds: float = 24 * 3600  # without a call of such an agent, until its session ends

    @cached_property
    def typed(self) -> dict[object, Any]:
        """Return the limits of desks as their own types, by desk: who reads them keeps them."""
        return {}

    def calls_of(self, tool: str) -> int:
        return _count_of(self.tool_calls or {}, tool, otherwise=2)

    def repeats_of(self, tool: str) -> int:
        return _count_of(self.tool_repeats or {}, tool, otherwise=1)

    def of(self, pattern: str, desk: str) -> Limits:
        """Return the limits of runs of one pattern at one desk.

        A desk that is not in the policy has no rules, so that all its proposals are blocked.
        """
        part = dict(self.desks.get(desk, {}))
        of_pattern = part.pop("patterns", {}).get(pattern, {})
        part |= {**_of_sessions(pattern, part.get("tools", ())), **of_pattern}
        own = {key: _freeze(value) for key, value in part.items() if key not in _OF_DESK}
        tools, off = own.pop("tools", ()), own.pop("off", ())
        if "redaction" in own:
            own["redaction"] = _read_redaction(own["redaction"])
        quirks = {name: own.pop(name) for name in _QUIRKS & own.keys()}
        return replace(
            self,
            **{"rules": (), **own},
            proposable=tools,
            executable=tuple(name for name in tools if name not in off),
            reference=replace(self.reference, **quirks) if quirks else self.reference,
            desks={desk: part},
        )

    def part_of(self, desk: str, name: str) -> Mapping[str, Json]:
        """Return a desk's limits, caps or patterns; none if they are not in the policy."""
        part: Json = self.desks.get(desk, {}).get(name, {})
        return dict(part)

    def covers(self, desk: str, pattern: str = "") -> bool:
        """Tell whether there are rules for a desk and, if one is named, for its pattern."""
        if desk not in self.desks:
            return False
        return pattern not in WITH_PART or pattern in self.part_of(desk, "patterns")

    def caps_of(self, desk: str) -> Mapping[str, Mapping[str, int]]:
        """Return a desk's daily caps by currency and name; a missing one means no cap."""
        return self.part_of(desk, "caps")

    def tiers_of(self, desk: str, currency: str) -> Tiers | None:
        """Return a desk's tiers in a currency; None if it has none, () if only in others."""
        return tiers_of(self.tiers, desk, currency) if self.tiers else None

    def as_json(self) -> dict[str, Json]:
        flat = asdict(self)
        flat |= flat.pop("reference")
        for name in _OF_RUN:
            del flat[name]
        if flat["tiers"] is None:
            del flat["tiers"]
        for name in ("max_send_backs", "max_empty_ends"):
            if not flat[name]:
                del flat[name]
        return {key: list(v) if isinstance(v, tuple) else v for key, v in flat.items()}


def _count_of(counts: Mapping[str, int], tool: str, *, otherwise: int) -> int:
    return counts.get(tool, counts.get(ANY_TOOL, otherwise))


def strict(desks: Overrides) -> Limits:
    """Return the policy that a workspace begins with: the console's, and its desks' parts."""
    return Limits(
        profile="strict",
        max_seconds=600,  # eight calls of a minute each, as slow models take, and the tools
        max_blocks=2,
        max_send_backs=2,
        max_empty_ends=1,
        redaction={CARDS: GONE, IBANS: NAME, EMAILS: NAME},
        desks=desks,
    )


def _of_sessions(pattern: str, tools: Iterable[str]) -> dict[str, Json]:
    """Return the limits of a session of an agent elsewhere, where a policy says nothing else.

    It may be killed and look again, as often as its calls last; what it does again is put to a
    person by the rule `policy.repeat`.
    """
    if pattern != EXTERNAL:
        return {}
    often = dict.fromkeys(tools, _CALLS_OF_SESSION)
    counts: dict[str, Json] = {
        "max_tool_calls": _CALLS_OF_SESSION,
        "max_seconds": 3600,
        "at_once": 4,
    }
    return {**counts, "tool_calls": often, "tool_repeats": often}


_QUIRKS = frozenset(field.name for field in fields(ReferenceQuirks))
_OF_RUN = (
    *("rules", "proposable", "executable", "tool_calls", "tool_repeats"),
    *("rolling_days", "required", "critical", "calls_per_minute", "idle_seconds"),
)
_KINDS = {
    f.name: str(f.type)
    for of in (Limits, ReferenceQuirks)
    for f in fields(of)
    if f.name != "reference"
}
WITH_PART = ("routing", "orchestrator", "workflow")  # a desk's part says who takes part in these
# What a policy document may hold, by its name there; what a desk's part of it may; and what may
# differ in one of its patterns.
KEYS = {name: kind for name, kind in _KINDS.items() if name not in _OF_RUN}
_NAMES, _OF_DESK = ("rules", "tools", "off"), ("limits", "caps", "patterns")
OF_DESK = (
    *(*_NAMES, "tool_calls", "tool_repeats", "rolling_days", "required", "critical"),
    *("calls_per_minute", "idle_seconds"),
    *_OF_DESK,
)
OF_PATTERN = tuple(
    sorted(
        {*_KINDS, *OF_DESK}
        - {"profile", "desks", "tiers", "patterns", "proposable", "executable", "inbox", "judge"}
    )
)


def read_limits(document: Json) -> Limits:
    """Return the limits a policy document holds. Raises BadPolicy."""
    if not isinstance(document, dict):
        raise BadPolicy("A policy is a JSON object.")
    document = policy_document(document)
    for key in document:
        if key not in KEYS:
            raise BadPolicy(f"A policy has no {key!r}; it has {', '.join(sorted(KEYS))}.")
    read = {key: _value(key, KEYS[key], value) for key, value in document.items()}
    try:
        quirks = ReferenceQuirks(**{name: read.pop(name) for name in _QUIRKS & read.keys()})
        limits = Limits(**read, reference=quirks)
    except TypeError as error:
        raise BadPolicy(f"The policy is not complete: {error}.") from None
    for desk, part in limits.desks.items():
        _check_desk(desk, part)
    try:
        read_tiers(limits.tiers or {})
    except BadTiers as error:
        raise BadPolicy(str(error)) from None
    return limits


def _check_desk(desk: str, part: Mapping[str, Json]) -> None:
    """Raise BadPolicy for a desk's part of a policy that cannot be used."""
    _check_part(f"The desk {desk!r}", part, OF_DESK)
    patterns = part.get("patterns", {})
    if not _all_objects(patterns):
        raise BadPolicy(f"The desk {desk!r} has an object for each of its patterns.")
    for pattern, own in patterns.items():
        _check_part(f"{pattern} at the desk {desk!r}", own, OF_PATTERN)


def _check_part(where: str, part: Mapping[str, Json], known: Sequence[str]) -> None:
    for key, value in part.items():
        if key not in known:
            raise BadPolicy(f"{where} has no {key!r}; it has {', '.join(known)}.")
        if key in _NAMES and not (isinstance(value, list) and _all_names(value)):
            raise BadPolicy(f"{where}: {key} is a list of names.")
        if key == "caps" and not (_all_objects(value) and all(map(_are_caps, value.values()))):
            raise BadPolicy(
                f"{where}: caps, by currency, are {', '.join(CAPS)}: whole minor units."
            )
        if key == "limits" and not isinstance(value, dict):
            raise BadPolicy(f"{where}: limits is an object.")
        if key in _KINDS and key not in _NAMES:
            _value(key, _KINDS[key], value)


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
    if kind.startswith("Overrides") and (_all_objects(value) or (value is None and "None" in kind)):
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
    "Overrides": "an object of names, and an object for each of them",
    "Overrides | None": "an object of names, and an object for each of them",
}


# A run's budgets, and the gateway's limits on calls.


REVIEW_CHANGED = "review_changed"  # not called, because it is no longer allowed
BUDGETS = frozenset({"max_seconds", "max_tokens", "max_cost"})


@dataclass(frozen=True)
class Spent:
    """What a run has used so far, from its steps."""

    seconds: float = 0.0  # active time; parallel calls count once
    tokens: int = 0  # including those reserved for calls without an answer
    cost_micro_usd: int = 0  # of calls with a known price


def active(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds covered by these spans; overlaps count once."""
    total, covered = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, covered))
        covered = max(covered, end)
    return total


def exceeded_budget(spent: Spent, limits: Limits) -> str:
    """Return the stop reason of an exhausted budget, or "".

    A budget of 30 seconds is exhausted at 30.0; tokens and cost may be used up to the limit.
    """
    if spent.seconds >= limits.max_seconds:
        return "max_seconds"
    if spent.tokens > limits.max_tokens:
        return "max_tokens"
    if spent.cost_micro_usd > limits.max_cost_micro_usd:
        return "max_cost"
    return ""


@dataclass(frozen=True)
class Call:
    """One tool call that a run has begun."""

    tool: str
    args: Json

    @cached_property
    def signature(self) -> str:
        return f"{self.tool}:{args_hash(to_model_units(self.args))}"


def refusal(
    call: Call, *, before: Sequence[Call], limits: Limits, registered: Collection[str]
) -> str:
    """Return why the gateway refuses a call, or "" if it may be made.

    The order is the reference's: budget, allowlist, registry, loops (sup-152 to sup-188).
    """
    if len(before) >= limits.max_tool_calls:
        return "max_tool_calls"
    if call.tool not in limits.executable:
        return f"tool_denied:{call.tool}"
    if call.tool not in registered:
        return f"tool_missing:{call.tool}"
    if sum(past.tool == call.tool for past in before) >= limits.calls_of(call.tool):
        return "loop_detected:per_tool_limit"
    if sum(past.signature == call.signature for past in before) >= limits.repeats_of(call.tool):
        return "loop_detected:signature_repeat"
    return ""


# When to ask a model again, and how long to wait before it.

ATTEMPTS = 3  # as many as the reference's client makes: one call and two retries
LONGEST_WAIT = 60.0  # seconds; a longer wait is not worth the run's time


def pause_before(attempt: int, *, hint: float | None, jitter: float) -> float:
    """Return seconds to wait before `attempt` (2, 3, …), from 0.

    The server's Retry-After hint counts up to LONGEST_WAIT. Without one: up to 0.5, 1, 2 … s,
    scaled by `jitter` in [0, 1], so that runs that failed together do not return together.
    """
    if hint is not None:
        return min(hint, LONGEST_WAIT)
    return min(0.5 * 2.0 ** (attempt - 2), LONGEST_WAIT) * jitter
