"""A policy version as data: its rules and limits; budgets of a run and pauses before a retry.

The document is plain JSON, checked here once, immutable once published, pinned by each run. One
table of limits, each with its meaning and range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from agents.core.compat_0_2 import policy_document
from agents.core.decisions import BadTiers, Tiers, read_tiers, tiers_of
from agents.core.json_forms import args_hash
from agents.core.money import MAX_MINOR, to_model_units
from agents.core.redact import CARDS, EMAILS, GONE, IBANS, KINDS, NAME, OFF, TREATMENTS
from agents.core.requests import Json


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


REPLAYS = "Compatibility with recorded cases"  # no published policy has them
EACH_DESK = "Each desk"


def _limit(
    topic: str,
    label: str,
    default: Any,
    help: str,  # noqa: A002 - as a form calls it
    *,
    unit: str = "",
    name: str = "",
    least: int | None = None,
    gathered: bool = False,
) -> Any:
    """Declare a limit: its default, its label and its help.

    Units: seconds, days, times, micro-USD, and tools for names of them. `name` is its name in a
    document, if another than the field's. A version with less than `least` is not published.
    """
    words: dict[str, Json] = {"topic": topic, "label": label, "help": help, "unit": unit}
    words |= {"name": name, "least": least, "gathered": gathered}
    given = {"default_factory": default} if callable(default) else {"default": default}
    return field(**given, metadata=words)


# The topics of the policy page, in order. Desks' limits are in the desks' parts.
_of_people = partial(_limit, "People")
_of_tools = partial(_limit, "Rules and tools")
_of_run = partial(_limit, "Budgets of a run")
_of_patterns = partial(_limit, "Reports, cases and workflows")
_of_privacy = partial(_limit, "Personal data")
_of_desk = partial(_limit, EACH_DESK)
_of_replays = partial(_limit, REPLAYS)


@dataclass(frozen=True)
class ReferenceQuirks:
    """Behaviour of the reference implementation that no policy needs.

    A policy document lists them among the limits.
    """

    errors_fail: bool = _of_tools(
        "A tool's error fails the step",
        True,
        "If no, a step whose tool reported an error is shown as if it had worked.",
    )
    late_calls: bool = _of_run(
        "Finishes calls under way",
        False,
        "If yes, the result of a call that began in time is used even if it comes too late.",
    )
    finalize: bool = _of_run(
        "Closing answer after the last step",
        False,
        "If yes, an agent that has used all its steps is asked for a closing answer.",
    )
    forget_refusals: bool = _of_replays(
        "Only the latest refusal counts",
        False,
        "If yes, only the specialist who declined last may not be asked again.",
    )
    self_reported: bool = _of_replays(
        "Count only self-reported deviations",
        False,
        "If yes, a draft counts as off its plan only where its agent says so itself.",
    )
    marker_word: bool = _of_replays(
        "Stop word ends iteration",
        False,
        "If yes, a draft is final once its agent writes the word CONVERGED.",
    )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """All limits of a policy version, or of runs of one pattern at one desk: see `of`.

    Amounts are in minor units. Each limit is declared here once: its type says what a document
    may hold, and pages, documents and error messages read the rest.
    """

    inbox: bool = _of_people(
        "Human approval enabled", True, "If no, a run stops where it would have asked a reviewer."
    )
    escalation_seconds: Annotated[_Count, Field(le=_CENTURY * 86400)] = _of_people(
        "Time to decide",
        24 * 3600,
        "A request that nobody decides within this time is rejected automatically.",
        unit="seconds",
        least=1,
    )
    four_eyes: bool = _of_people(
        "No self-approval",
        True,
        "If yes, nobody can decide the requests of a run that they launched, or of one that "
        "repeats it.",
    )
    second_admin: bool = _of_people(
        "A second admin publishes",
        False,
        "If yes, a version is published by another admin than the one who asks for it.",
    )
    max_empty_ends: _Count = _of_people(
        "Ends asked about, per run",
        0,
        "If an answer claims a deed, but no call was executed, blocked or asked about, the agent "
        "is told so. It may propose the call or say why not.",
        unit="times",
    )
    max_send_backs: _Count = _of_people(
        "Requests sent back, per run",
        0,
        "A reviewer may send a request back instead of rejecting it: the agent gets the reason and "
        "may propose something else, which waits for a reviewer again. After that many, the "
        "requests of the run can only be approved, changed or rejected.",
        unit="times",
    )
    tiers: Overrides | None = _of_people(  # see core.decisions
        "Approvers by amount",
        None,
        "The amount that is asked for picks the tier. Members of its team, or of a higher tier's, "
        "may approve within their own limits; anyone who reviews may reject. With two people, the "
        "request waits until a second person has approved exactly what the first did. A tier that "
        "does not answer in its time passes the request on to the next.",
    )
    open_per_launcher: _Count | None = _of_people(
        "Requests waiting, per launcher",
        1000,
        "With this many waiting, the same person cannot launch more runs until some are decided.",
        least=1,
    )
    open_per_subject: _Count | None = _of_people(
        "Requests waiting, per subject",
        20,
        "With this many waiting about one subject, nobody can launch more runs about it until some "
        "are decided.",
        least=1,
    )
    hand_over: bool = _of_people(
        "Unsolved cases go to people",
        True,
        "If yes, a case that every specialist declines waits for a reviewer to take it over. If "
        "no, its run stops.",
    )
    profile: _Name = _of_tools("Profile", MISSING, "The name of this set of rules and limits.")
    call_seconds: _Seconds = _of_tools(
        "Time for one call",
        600,
        "A tool that takes longer counts as failed. A tool's own limit may be shorter.",
        unit="seconds",
        least=1,
    )
    max_steps: _Count = _of_run(
        "Steps", 8, "Actions the agent may propose in one run. The next one stops the run.", least=1
    )
    max_blocks: _Count = _of_run(
        "Second chances after a block",
        0,
        "How often in a run the agent is told why it was blocked and may propose something else. "
        "The next block stops the run.",
    )
    max_tool_calls: _Count = _of_run(
        "Tool calls",
        5,
        "How often one run may call tools. An agent that proposes one more is told so and may "
        "answer; if it cannot be told, the run stops.",
    )
    max_seconds: _Seconds = _of_run(
        "Working time",
        30,
        "Time that models and tools take; waiting for people does not count. When it is used up, "
        "the run stops.",
        unit="seconds",
        least=1,
    )
    max_tokens: _Count = _of_run(
        "Tokens",
        60_000,
        "Text that models read and write in one run, about four letters each. When they are used "
        "up, the run stops.",
        least=1,
    )
    max_cost_micro_usd: _Count = _of_run(
        "Model cost",
        500_000,
        "What one run may spend on models. When it is used up, the run stops.",
        unit="micro-USD",
    )
    outlasts_outages: bool = _of_run(
        "Waits out model outages",
        True,
        "If yes, a run waits while the model's server is down and continues afterwards. If no, it "
        "stops.",
    )
    finishes_letters: bool = _of_run(
        "Letters are finished when time is up",
        True,
        "If yes, a run that has paid still writes the letter about it after its working time is "
        "used up.",
    )
    late: _Names = _of_run(
        "May run past the working time",
        (),
        "Models and tools that are still used when the working time is used up.",
    )
    call_attempts: _Count = _of_patterns(
        "Attempts at a task",
        2,
        "How often a report's task is tried when it takes too long. Then it counts as failed.",
        least=1,
    )
    at_once: _Count = _of_patterns(
        "Tasks side by side",
        3,
        "How many tasks of a report run at the same time, or how many calls of an agent that runs "
        "elsewhere may wait for people side by side.",
        least=1,
    )
    judge: bool = _of_patterns(
        "A model may judge drafts",
        True,
        "If no, workflows whose drafts a model would judge cannot be launched.",
    )
    max_reorients: _Count = _of_patterns(
        "Corrections per draft",
        1,
        "How often the judging model may send one draft back. If it objects again, a reviewer "
        "decides. What the agent rewrites by itself does not count.",
        unit="times",
    )
    redaction: Redaction = _of_privacy(
        "Masked before anything is kept",
        partial(dict.fromkeys, KINDS, OFF),
        "Wherever people, models or tools write them. A name stands for the same value everywhere, "
        "so the policy can compare it, and only tools and people who decide get the value. What is "
        "gone nobody gets, and a call that would need it is blocked. Keys and passwords are gone "
        "under every policy; docs/personal-data.md lists the forms that are found.",
    )
    reference: ReferenceQuirks = ReferenceQuirks()
    desks: Overrides = _limit("", "", dict, "")  # each desk's part, by its name
    # From a desk's part, for one pattern; a whole version has none of these.
    rules: _Names = _of_desk("", (), "")
    proposable: _Names = _of_desk(
        "Tools", (), "Any other tool is refused before the rules are checked.", name="tools"
    )
    executable: _Names = _of_desk(  # the proposable tools that are not off
        "Tools that are off",
        (),
        "The agent may propose them, and they are refused when they are called.",
        name="off",
    )
    tool_calls: _Counts | None = _of_desk(
        "Calls of one tool in a run",
        None,
        "An agent that proposes one more is told so, as it seems to be in a loop. If it cannot be "
        "told, the run stops.",
    )
    tool_repeats: _Counts | None = _of_desk(
        "The same call in a run",
        None,
        "How often one tool may be called with exactly the same values. An agent that does so "
        "again is told so. If it cannot be told, the run stops.",
    )
    rolling_days: Annotated[_Count, Field(le=_CENTURY)] = _of_desk(
        "Amounts are added up over",
        30,
        "In this period, what was paid for the same thing without approval counts as one sum, and "
        "so does what one reviewer approved: a large amount cannot be split into small ones.",
        unit="days",
        gathered=True,
    )
    required: _Names = _of_desk(
        "Required sources",
        (),
        "A plan for a report that leaves one of them out is blocked.",
        unit="tools",
    )
    critical: _Names = _of_desk(
        "Critical sources", (), "If one of them fails, no report is written.", unit="tools"
    )
    calls_per_minute: _Count = _of_desk(
        "Calls of an agent in a minute",
        120,
        "How often an agent that runs elsewhere may open a session or propose, in all its sessions "
        "together. Further calls are refused until a minute has passed.",
        least=1,
    )
    idle_seconds: _Seconds = _of_desk(
        "Idle time of an agent's session",
        24 * 3600,
        "After so long without a call, while nothing waits for a person, the session of an agent "
        "that runs elsewhere is closed.",
        unit="seconds",
        least=1,
    )

    @cached_property
    def typed(self) -> dict[object, Any]:
        """Return the limits of desks as their own types, by desk. Readers keep them."""
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
        for one in fields(self):
            if one.metadata.get("topic") == EACH_DESK:
                del flat[one.name]
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


def _declared(of: type[Any]) -> Iterator[tuple[LimitField, TypeAdapter[Any]]]:
    """Yield the limits that a class declares, each with the checker of its values."""
    for one, kind in zip(fields(of), get_type_hints(of, include_extras=True).values(), strict=True):
        if one.metadata:
            words, adapter = dict(one.metadata), TypeAdapter[Any](kind)
            name = words.pop("name") or one.name
            default = None if one.default is MISSING else one.default
            schema = adapter.json_schema()
            yield LimitField(name=name, default=default, schema=schema, **words), adapter


_QUIRKS = {one.name for one in fields(ReferenceQuirks)}
_DECLARED = [*_declared(Limits), *_declared(ReferenceQuirks)]
LIMITS: Mapping[str, LimitField] = {one.name: one for one, _ in _DECLARED}
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
