"""A policy version as data: its rules and limits; budgets of a run and pauses before a retry.

The document is plain JSON, checked here once, immutable once published, pinned by each run. One
table of limits, each with its meaning and range.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from agents.core.compat_0_2 import policy_document
from agents.core.decisions import BadTiers, Tiers, read_tiers
from agents.core.json_forms import args_hash
from agents.core.money import MAX_MINOR, to_model_units
from agents.core.redact import CARDS, EMAILS, GONE, IBANS, KINDS, NAME, OFF, TREATMENTS
from agents.core.requests import Json
from agents.core.tables import read_table


class BadPolicy(ValueError):
    """The policy document cannot be used. The message says which key and why."""


# A desk's daily (UTC) caps by currency, in minor units: on what is paid without a person,
# for one launcher and in all, and on what one person may grant.
_Cap = Literal["launcher_daily_minor", "workspace_daily_minor", "reviewer_daily_minor"]
BY_LAUNCHER, IN_WORKSPACE, BY_REVIEWER = get_args(_Cap)
EXTERNAL = "external"  # the pattern of runs of external agents
_CALLS_OF_SESSION = 200  # of a session, if the policy has no limit
ANY_TOOL = "*"  # in tool_calls and tool_repeats: every other tool
Overrides: TypeAlias = Mapping[str, Mapping[str, Json]]
Redaction: TypeAlias = Mapping[str, str]  # by kind of personal data: see core.redact


_Count = Annotated[int, Field(ge=0, le=MAX_MINOR)]
_Seconds = Annotated[float, Field(ge=0, lt=10**9)]
_CENTURY = 36500  # days: no calendar has MAX_MINOR
_Name = Annotated[str, Field(min_length=1)]
_Names: TypeAlias = tuple[_Name, ...]
_Counts: TypeAlias = Mapping[str, _Count]


@dataclass(frozen=True)
class LimitField:
    """One limit as the console or a desk declares it. Its schema has its type and bounds."""

    name: str  # in a policy document
    label: str  # "": another part of the page shows it
    help: str
    unit: str
    default: Json
    schema: Json
    topic: str = ""  # of the console's limits
    # At publishing; stored versions may have other values.
    least: Any = None
    most: Any = None
    below: str = ""  # the name of a limit that it may not exceed
    says: str = ""  # what it does, in a sentence with a place for its value
    gathered: bool = False  # facts are gathered by it, so stored ones do not show another value


EACH_DESK = "Each desk"


@dataclass(frozen=True)
class _LimitWords:
    """The row of a limit in limits.toml."""

    label: str = ""
    help: str = ""
    unit: str = ""  # seconds, days, times, micro-USD, or tools for names of them
    name: str = ""  # in a document, if another than the field's
    least: int | None = None  # a version with less is not published
    gathered: bool = False


@dataclass(frozen=True)
class ReferenceQuirks:
    """Behaviour of the reference implementation that no policy needs.

    A policy document lists them among the limits.
    """

    errors_fail: bool = True
    late_calls: bool = False
    finalize: bool = False
    forget_refusals: bool = False
    self_reported: bool = False
    marker_word: bool = False


@dataclass(frozen=True, kw_only=True)
class Limits:
    """All limits of a policy version, or of runs of one pattern at one desk: see `of`.

    Amounts are in minor units. A limit's type says what a document may hold; its words are in
    limits.toml.
    """

    inbox: bool = True
    escalation_seconds: Annotated[_Count, Field(le=_CENTURY * 86400)] = 24 * 3600
    four_eyes: bool = True
    second_admin: bool = False
    max_empty_ends: _Count = 0
    max_send_backs: _Count = 0
    tiers: Overrides | None = None  # see core.decisions
    open_per_launcher: _Count | None = 1000
    open_per_subject: _Count | None = 20
    hand_over: bool = True
    profile: _Name
    call_seconds: _Seconds = 600
    max_steps: _Count = 8
    max_blocks: _Count = 0
    max_tool_calls: _Count = 5
    max_seconds: _Seconds = 30
    max_tokens: _Count = 60_000
    max_cost_micro_usd: _Count = 500_000
    outlasts_outages: bool = True
    finishes_letters: bool = True
    late: _Names = ()
    call_attempts: _Count = 2
    at_once: _Count = 3
    judge: bool = True
    max_reorients: _Count = 1
    redaction: Redaction = field(default_factory=lambda: dict.fromkeys(KINDS, OFF))
    reference: ReferenceQuirks = ReferenceQuirks()
    desks: Overrides = field(default_factory=dict)  # each desk's part, by its name
    # From a desk's part, for one pattern; a whole version has none of these.
    rules: _Names = ()
    proposable: _Names = ()
    executable: _Names = ()  # the proposable tools that are not off
    tool_calls: _Counts | None = None
    tool_repeats: _Counts | None = None
    rolling_days: Annotated[_Count, Field(le=_CENTURY)] = 30
    required: _Names = ()
    critical: _Names = ()
    calls_per_minute: _Count = 120
    idle_seconds: _Seconds = 24 * 3600

    @cached_property
    def typed(self) -> dict[object, Any]:
        """Return the limits of desks as their own types, by desk. Readers keep them."""
        return {}

    @cached_property
    def of_rules(self) -> Json:
        """Return what rules read of limits: under others with the same, they say the same."""
        of_desks = [[part.get(one) for one in ("limits", "caps")] for part in self.desks.values()]
        lists = self.rules, self.proposable, self.required, self.critical
        return [lists, self.rolling_days, of_desks]

    def calls_of(self, tool: str) -> int:
        return _count_of(self.tool_calls or {}, tool, otherwise=2)

    def repeats_of(self, tool: str) -> int:
        return _count_of(self.tool_repeats or {}, tool, otherwise=1)

    def of(self, pattern: str, desk: str) -> "Limits":
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
        """Return a desk's tiers in a currency; None if the desk has none.

        () if it has some only for other currencies: then nobody may grant anything in this one, as
        with a person's own limits.
        """
        held = (self.tiers or {}).get(desk)
        return None if held is None else read_tiers({desk: held})[desk].get(currency, ())

    def as_json(self) -> dict[str, Json]:
        flat = asdict(self)
        flat |= flat.pop("reference")
        for name, (topic, _) in _ROW_OF.items():
            if topic == EACH_DESK:
                del flat[name]
        if flat["tiers"] is None:
            del flat["tiers"]
        for name in ("max_send_backs", "max_empty_ends", "second_admin"):
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
    """Return the default limits of an external agent's session.

    A restarted agent may read again as often as its calls last; rule `policy.repeat` asks a person
    about repeated writes.
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


_ROWS = read_table(dict[str, dict[str, _LimitWords]], __file__, "limits.toml")
_ROW_OF = {name: (topic, row) for topic, rows in _ROWS.items() for name, row in rows.items()}


def _declared(of: type[Any]) -> Iterator[tuple[LimitField, TypeAdapter[Any]]]:
    """Yield the limits that a class declares, each with the checker of its values."""
    for one, kind in zip(fields(of), get_type_hints(of, include_extras=True).values(), strict=True):
        if kind is not ReferenceQuirks:
            (topic, row), adapter = _ROW_OF[one.name], TypeAdapter[Any](kind)
            default = None if one.default is MISSING else one.default
            own = {**vars(row), "name": row.name or one.name, "topic": topic}
            yield LimitField(default=default, schema=adapter.json_schema(), **own), adapter


_QUIRKS = {one.name for one in fields(ReferenceQuirks)}
_DECLARED = [*_declared(Limits), *_declared(ReferenceQuirks)]
LIMITS: Mapping[str, LimitField] = {one.name: one for one, _ in _DECLARED}
if len(LIMITS) != len(_ROW_OF):
    raise TypeError(f"limits.toml has rows of no limit: {sorted(_ROW_OF)}")
_OF_DESK: dict[str, TypeAdapter[Any]] = {
    "limits": TypeAdapter(Mapping[str, Json]),
    "caps": TypeAdapter(Mapping[str, Mapping[_Cap, _Count]]),
    "patterns": TypeAdapter(Overrides),
}
_CHECKS = {one.name: adapter for one, adapter in _DECLARED} | _OF_DESK
WITH_PART = ("routing", "orchestrator", "workflow")  # a desk's part lists the participants of these
# The keys of a policy document, of a desk's part, and of one of its patterns.
KEYS = tuple(name for name, one in LIMITS.items() if one.topic != EACH_DESK)
OF_DESK = (*(name for name, one in LIMITS.items() if one.topic == EACH_DESK), *_OF_DESK)
OF_PATTERN = tuple(
    sorted(
        {*LIMITS, *OF_DESK}
        - {"profile", "desks", "tiers", "patterns", "inbox", "judge", "second_admin"}
    )
)


def read_limits(document: Json) -> Limits:
    """Return the limits a policy document holds. Raises BadPolicy."""
    if not isinstance(document, dict):
        raise BadPolicy("A policy is a JSON object.")
    document = policy_document(document)
    read = {key: _value("A policy", key, value, KEYS) for key, value in document.items()}
    try:
        quirks = ReferenceQuirks(**{name: read.pop(name) for name in _QUIRKS & read.keys()})
        limits = Limits(**read, reference=quirks)
    except TypeError as error:
        raise BadPolicy(f"The policy is not complete: {error}.") from None
    for desk, part in limits.desks.items():
        _check_part(f"The desk {desk!r}", part, OF_DESK)
        for pattern, own in part.get("patterns", {}).items():
            _check_part(f"{pattern} at the desk {desk!r}", own, OF_PATTERN)
    try:
        read_tiers(limits.tiers or {})
    except BadTiers as error:
        raise BadPolicy(str(error)) from None
    return limits


def _check_part(where: str, part: Mapping[str, Json], known: Collection[str]) -> None:
    """Raise BadPolicy for a part of a policy that cannot be used."""
    for key, value in part.items():
        _value(where, key, value, known)


def _read_redaction(value: Json) -> Redaction:
    """Return the treatment of each kind. The older form, a list, names the kinds that are gone."""
    if isinstance(value, list | tuple):
        value = {**dict.fromkeys(KINDS, OFF), **dict.fromkeys(value, GONE)}
    if not isinstance(value, dict):
        raise BadPolicy(f"redaction cannot be {value!r}: it is an object of kinds.")
    for kind, treatment in value.items():
        if kind not in KINDS:
            raise BadPolicy(f"redaction has no {kind!r}; it has {', '.join(KINDS)}.")
        if treatment not in TREATMENTS:
            raise BadPolicy(f"{kind} cannot be {treatment!r}: it is {', '.join(TREATMENTS)}.")
    if silent := [kind for kind in KINDS if kind not in value]:
        raise BadPolicy(f"redaction has no treatment of {', '.join(silent)}.")
    return {kind: value[kind] for kind in KINDS}


def _freeze(value: Json) -> Json:
    return tuple(value) if isinstance(value, list) else value


def _value(where: str, key: str, value: Json, known: Collection[str]) -> Json:
    """Check one value against its limit's schema, and return it."""
    if key not in known:
        near = get_close_matches(key, known, n=1)
        hint = f"is {near[0]!r} meant?" if near else f"it has {', '.join(sorted(known))}."
        raise BadPolicy(f"{where} has no {key!r}; {hint}")
    if key == "redaction":
        return _read_redaction(value)
    frozen = _freeze(value)
    try:
        _CHECKS[key].validate_python(frozen, strict=True)
    except ValidationError as error:
        label = f", {LIMITS[key].label}" if key in LIMITS and LIMITS[key].label else ""
        wrong = error.errors()[0]
        place = ".".join(str(name) for name in (key, *wrong["loc"]) if name != "[key]")
        held = wrong["input"] if wrong["loc"] else value
        raise BadPolicy(f"{where}{label}: {place} cannot be {held!r}. {wrong['msg']}.") from None
    return frozen


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
