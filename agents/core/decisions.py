"""The kinds of requests to a person, the decisions on them, and tiers that say whom one takes.

Queue, card, form, trace, commands and docs use request_kinds.toml. A tool may have its own words
for a request to run it: `Tool.request`, a copy of ACTION.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import pairwise
from math import floor, log2
from typing import Any, TypeAlias

from agents.core.money import BadAmount, exponent, format_money
from agents.core.requests import EscalationState, Json
from agents.core.tables import read_table

# As a form sends them.
APPROVE, ADJUST, SEND_BACK, REJECT = "approve", "adjust", "send_back", "reject"
# What a person may change: the arguments that the tool opens, a text, or a step's instructions; or
# write, the answer to a question.
ARGUMENTS, TEXT, INSTRUCTIONS, ANSWER = "arguments", "text", "instructions", "answer"


@dataclass(frozen=True)
class Answer:
    """One possible answer of a person."""

    verdict: str
    label: str  # of its tab
    consequence: str  # the card's headline while it is chosen: what the button does
    button: str


@dataclass(frozen=True)
class RequestKind:
    """A kind of request. `stored` is what escalations and events hold for it."""

    stored: str
    tag: str  # shown in a row where others have an amount
    asks: str
    note: str  # under the headline, while it waits
    answers: tuple[Answer, ...]
    change: str  # what `adjust` changes; "": nothing
    reason: str  # the label of the field next to the answer
    undone: str  # after a rejection, an expiry or the run's end
    done: str = ""  # the result, once it is known; "": the person's action
    it: str = "the request"
    did: dict[EscalationState, str] = field(default_factory=dict)  # if different
    words: Mapping[EscalationState, str] = field(default_factory=dict)  # of its state, if different
    opened: str = "Asked for approval{what}{case} ({reason})."
    grants: tuple[str, ...] = ()  # ready reasons for an approval
    refusals: tuple[str, ...] = ()  # and for a rejection
    changed: str = ""  # `done` where the person changed something; "": the same
    pending: str = ""  # allowed, and not executed yet
    doing: str = ""  # begun, by a live worker, within the time of the call
    under_way: str = ""  # begun, and its outcome is unknown
    awaits: str = "approval"
    expires: str = "rejected"  # the outcome if nobody answers in time
    lost: str = ""  # asks for the outcome, if it was lost
    runs_tool: bool = False  # an approval starts a call, which is executed or has a reason why not
    settles_call: bool = False  # states the outcome of an earlier call: an approval starts nothing
    ends_run: bool = False  # whatever the answer
    turn: str = ""  # the title of its turn; "": that of its tool or step
    labels: Mapping[str, str] = field(default_factory=dict)  # of what is changed, by argument
    # Sentences on its call, by the state of the effect: {tool}, {of}, {amount}, {about}, {to}.
    events: Mapping[str, str] = field(default_factory=dict)
    may_be_simulated: bool = False  # answered by the program that plays a person

    @property
    def starts_nothing(self) -> bool:
        """Tell whether no answer starts a call, so that kill switches do not hold it."""
        return self.settles_call or self.change == ANSWER

    @property
    def expiry_words(self) -> str:
        """Return the end of an expired request, as the beginning of a sentence."""
        return f"Expired and {self.expires}{' automatically' if self.expires == 'rejected' else ''}"

    def what_was_done(self, state: str, granted: str = "", proposed: str = "") -> str:
        """Return a person's action: "took over the case", "approved 8.00 instead of 9.00".

        The amounts are of money, and "" if there is none.
        """
        if state == EscalationState.ADJUSTED and granted and proposed and granted != proposed:
            return f"approved {granted} instead of {proposed}"
        did = (_TABLES.did | self.did)[EscalationState(state)]
        return did.format(it=granted or proposed or self.it)

    def answer(self, verdict: str) -> Answer | None:
        return next((one for one in self.answers if one.verdict == verdict), None)


@dataclass(frozen=True)
class _RequestWords:
    """The tables of request_kinds.toml."""

    did: dict[EscalationState, str]  # what a person did with a request, by its state
    kinds: Mapping[str, RequestKind]
    lapses: dict[str, str]


_TABLES = read_table(_RequestWords, __file__, "request_kinds.toml")
KINDS, LAPSES = _TABLES.kinds, _TABLES.lapses
ACTION, LETTER, OUTPUT = KINDS["action"], KINDS["letter"], KINDS["output"]
FINAL, QUESTION = KINDS["answer"], KINDS["question"]
HAND_OVER, INQUIRY = KINDS["hand_over"], KINDS["inquiry"]
EFFECT_UNKNOWN = KINDS["effect_unknown"]
# For a call that an agent proposed: it gets the reason, and may propose something else.
(RETURN,) = (answer for answer in ACTION.answers if answer.verdict == SEND_BACK)
_BY_STORED = {
    (kind.stored, kind.runs_tool): kind
    for kind in KINDS.values()
    if kind.stored in ("action", "output") and kind is not FINAL
}
_OTHERS = {kind.stored: kind for kind in (QUESTION, HAND_OVER, INQUIRY, EFFECT_UNKNOWN)}


def kind_of(stored: str, action: Mapping[str, Any]) -> RequestKind:
    """Return the kind of a stored request, even of an erased run. Raises KeyError if unknown."""
    if stored == FINAL.stored and action.get("kind") == "final":
        return FINAL
    return _OTHERS.get(stored) or _BY_STORED[stored, action.get("kind") == "tool"]


def answer_of(took_effect: object) -> EscalationState:
    return EscalationState.APPROVED if took_effect else EscalationState.REJECTED


# A person's decision on a request, the tiers that say whom it takes, and figures of decisions.
#
# A decision has one form from page and command to the reply, row and event.


# What a person writes with a decision. Form, redaction, reply, event and erasure follow this list.
WRITTEN = ("comment", "correction")


@dataclass(frozen=True)
class Decision:
    """A person's decision, and what they saw, as far as their form says.

    With `send_back`, the agent may propose something else; the comment is the reason. `patch` holds
    the changed arguments as JSON, among those that people may change. `correction` is the
    instruction for a repeated workflow step, the answer to a question, or the text of a letter.
    """

    approve: bool
    send_back: bool = False
    comment: str = ""
    correction: str = ""
    patch: Mapping[str, Json] | None = None  # None: no change
    action_sha256: str | None = None  # of the action that they saw
    approval: int | None = None  # the first of two approvals that they saw; 0: none
    is_reported: bool | None = None  # whether they saw the agent's report of its call
    bulk: str = ""  # the bulk rejection it is part of

    def __post_init__(self) -> None:
        kept = {
            "send_back": self.send_back and not self.approve,
            "patch": dict(self.patch) if self.patch is not None and self.approve else None,
            **{name: text.strip() for name, text in self.written.items()},
        }
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    @property
    def written(self) -> dict[str, str]:
        return {name: text for name in WRITTEN if (text := getattr(self, name))}

    def state(self, *, is_changed: bool) -> EscalationState:
        """Return the request's new state; `is_changed`: other arguments were granted."""
        if not self.approve:
            return EscalationState.SENT_BACK if self.send_back else EscalationState.REJECTED
        is_other = bool(self.correction) or is_changed
        return EscalationState.ADJUSTED if is_other else EscalationState.APPROVED

    def reply(
        self, state: EscalationState, *, granted_minor: int | None, by: str, is_simulated: bool
    ) -> dict[str, Json]:
        """Return the reply for the run and the record: see REPLY."""
        return {
            "decision": state.value,
            "granted_minor": granted_minor,
            "revised": bool(self.correction or self.patch),
            "comment": self.comment,
            "by": by,
            "simulated": is_simulated,
            **self.written,
            **({"patch": self.patch} if self.patch else {}),
        }


# The parts of a reply, each with its default.
REPLY: Mapping[str, Json] = {
    **dict.fromkeys(("decision", "granted_minor", "revised", "patch", "by", "simulated")),
    **dict.fromkeys(WRITTEN, ""),
}


# Tiers: who may approve an amount, and how many people that takes.
#
# A policy document holds them by desk and currency, lowest amounts first:
#
# {"credits": {"EUR": [{"up_to_minor": 100000}, {"up_to_minor": 500000, "team": "leads",
# "answer_within": 30}, {"team": "finance", "people": 2}]}}
#
# The requested amount picks the tier, even for an approval of only a part of it.


MOST_PEOPLE = 2
MOST_MINUTES = 60 * 24 * 365


class BadTiers(ValueError):
    """The tiers of a policy cannot be used. The message says which and why."""


@dataclass(frozen=True)
class Tier:
    """One band of amounts. Its team may decide, and so may the teams of higher tiers."""

    up_to_minor: int | None = None  # in minor units; None: any amount
    team: str = ""  # its slug; "": every reviewer
    people: int = 1  # approvals needed
    answer_within: int | None = None  # minutes, after which the next tier is asked


Tiers: TypeAlias = tuple[Tier, ...]
_KEYS = tuple(field.name for field in fields(Tier))


@dataclass(frozen=True)
class Demand:
    """What approval requires: `people` from one of `teams`; None is any reviewer, () nobody."""

    people: int = 1
    teams: tuple[str, ...] | None = None
    place: int | None = None  # of the tier; None: there is none

    def admits(self, teams: Collection[str]) -> bool:
        """Tell whether a person of these teams may approve."""
        return self.teams is None or any(team in self.teams for team in teams)


class Yes(Enum):
    """The effect of one person's approval."""

    DECIDES = "decides"
    IS_FIRST = "is_first"  # the request keeps waiting for a second person
    IS_REPEATED = "is_repeated"  # the same person again: it does not count


def read_tiers(document: Json) -> dict[str, dict[str, Tiers]]:
    """Return the tiers of a policy by desk and currency. Raises BadTiers."""
    if not isinstance(document, dict):
        raise BadTiers("tiers are an object of desks.")
    return {desk: _read_desk(desk, held) for desk, held in document.items()}


def _read_desk(desk: str, held: Json) -> dict[str, Tiers]:
    if not isinstance(held, dict) or not held:
        raise BadTiers(f"The tiers of the desk {desk!r} are an object of currencies.")
    return {
        currency: _read_bands(f"{desk} in {currency}", currency, held[currency])
        for currency in held
    }


def _read_bands(where: str, currency: str, held: Json) -> Tiers:
    try:
        exponent(currency)
    except BadAmount as error:
        raise BadTiers(f"The tiers of {where}: {error}.") from None
    if not isinstance(held, list) or not held:
        raise BadTiers(f"The tiers of {where} are a list, lowest amounts first.")
    tiers = tuple(_read_tier(where, number, one) for number, one in enumerate(held, 1))
    *bounded, last = tiers
    if last.up_to_minor is not None or any(one.up_to_minor is None for one in bounded):
        raise BadTiers(f"The last tier of {where}, and only the last, has no upper amount.")
    if last.answer_within is not None:
        raise BadTiers(f"Nobody is asked after the last tier of {where}: it has no time limit.")
    for lower, higher in pairwise(tiers):
        _check_order(where, currency, lower, higher)
    return tiers


def _check_order(where: str, currency: str, lower: Tier, higher: Tier) -> None:
    """Refuse a higher tier that is easier to pass than the lower. Raises BadTiers."""
    low, high = lower.up_to_minor, higher.up_to_minor
    if low is not None and high is not None and high <= low:
        after = f"{format_money(high, currency)} comes after {format_money(low, currency)}"
        raise BadTiers(f"The tiers of {where} must ascend: {after}.")
    if higher.people < lower.people:
        raise BadTiers(f"A higher tier of {where} must not take fewer people than a lower one.")
    if lower.team and not higher.team:
        raise BadTiers(f"A tier of {where} above that of the team {lower.team!r} needs a team too.")


def _read_tier(where: str, number: int, held: Json) -> Tier:
    tier = f"Tier {number} of {where}"
    if not isinstance(held, dict) or set(held) - set(_KEYS):
        raise BadTiers(f"{tier} is an object of {', '.join(_KEYS)}.")
    up_to, team = held.get("up_to_minor"), held.get("team", "")
    people, within = held.get("people", 1), held.get("answer_within")
    if up_to is not None and not _is_whole(up_to, 2**53 - 1):
        raise BadTiers(f"{tier}: up_to_minor must be a whole number of minor units above zero.")
    if not isinstance(team, str) or ("team" in held and not team):
        raise BadTiers(f"{tier}: team is a team's short name.")
    if not _is_whole(people, MOST_PEOPLE):
        raise BadTiers(f"{tier}: people must be 1 or 2.")
    if within is not None and not _is_whole(within, MOST_MINUTES):
        raise BadTiers(f"{tier}: answer_within must be a whole number of minutes from 1.")
    return Tier(up_to, team, people, within)


def _is_whole(value: Json, most: int) -> bool:
    return type(value) is int and 1 <= value <= most


def demand_of(tiers: Tiers | None, amount_minor: int | None, *, people: int = 1) -> Demand:
    """Return what approving an amount requires; `people` is the number its tool declares."""
    if tiers is None or amount_minor is None:
        return Demand(people)
    for place, tier in enumerate(tiers):
        if tier.up_to_minor is None or amount_minor <= tier.up_to_minor:
            teams = tuple(one.team for one in tiers[place:]) if tier.team else None
            return Demand(max(people, tier.people), teams, place)
    return Demand(people, teams=())


def what_yes_does(demand: Demand, *, by: int, first_by: int | None, is_same: bool) -> Yes:
    """Return the effect of an approval by a person who may give it.

    `first_by` approved before, perhaps other terms: then this is a first approval again.
    """
    if demand.people < MOST_PEOPLE:
        return Yes.DECIDES
    if first_by == by:
        return Yes.IS_REPEATED
    return Yes.DECIDES if first_by is not None and is_same else Yes.IS_FIRST


def tier_after(tiers: Sequence[Tier], place: int) -> int | None:
    """Return the tier to ask after a silent one; None: there is none, and the request expires."""
    has_time = 0 <= place < len(tiers) - 1 and tiers[place].answer_within is not None
    return place + 1 if has_time else None


# How people decided requests, as sums that can be added over days, rules and people.


STEPS = 8  # classes of durations per doubling, so that a median is off by at most 4.4 %
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Closed:
    """A request that was decided or expired."""

    state: str
    rule: str  # that asked for a person
    by: int | None
    asked_minor: int | None
    granted_minor: int | None
    currency: str
    opened_at: datetime
    closed_at: datetime

    @property
    def taken_off(self) -> int:
        """Return by how much an adjusted request was lowered, in minor units."""
        is_lowered = self.state == EscalationState.ADJUSTED and self.granted_minor is not None
        return (self.asked_minor or 0) - (self.granted_minor or 0) if is_lowered else 0


@dataclass
class ReviewFigures:
    """Sums of closed requests. All parts are counts or amounts, so that sums add up."""

    counts: Counter[str] = field(default_factory=Counter)  # by state
    taken_off: Counter[str] = field(default_factory=Counter)  # minor units, by currency
    lengths: Counter[int] = field(default_factory=Counter)  # of decisions, by class of time
    # By hour of the day (UTC), each day counted.
    arrived: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)  # by a person
    waiting: Counter[int] = field(default_factory=Counter)  # at some time in the hour

    def add(self, one: Closed) -> None:
        """Count a request."""
        self.counts[one.state] += 1
        if one.taken_off:
            self.taken_off[one.currency] += one.taken_off
        if one.by is not None:
            self.lengths[_class_of((one.closed_at - one.opened_at).total_seconds())] += 1
            self.answered[one.closed_at.astimezone(UTC).hour] += 1
        self.arrived[one.opened_at.astimezone(UTC).hour] += 1
        self.waiting.update(_hours(one.opened_at, one.closed_at))

    def merge(self, other: "ReviewFigures") -> None:
        """Add the sums of others."""
        self.counts += other.counts
        self.taken_off += other.taken_off
        self.lengths += other.lengths
        self.merge_hours(other)

    def merge_hours(self, other: "ReviewFigures") -> None:
        """Add only what others count by hour of the day."""
        self.arrived += other.arrived
        self.answered += other.answered
        self.waiting += other.waiting

    def as_json(self) -> Json:
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: {str(key): n for key, n in part.items()} for name, part in parts.items()}

    @property
    def decided(self) -> int:
        """Return how many requests people decided."""
        return self.lengths.total()

    def seconds(self, share: float) -> float | None:
        """Return the seconds within which this share of decisions was made; None without any."""
        rank, before = share * self.decided, 0
        for number, count in sorted(self.lengths.items()):
            before += count
            if before >= rank:
                return 0.5 if number == 0 else 2 ** ((number - 0.5) / STEPS)
        return None


def figures_from(stored: Json) -> ReviewFigures:
    """Read stored sums."""

    def whole(name: str) -> Counter[int]:
        # Days that were summed before hours were counted have none.
        return Counter({int(key): n for key, n in stored.get(name, {}).items()})

    hours = [whole(name) for name in ("arrived", "answered", "waiting")]
    return ReviewFigures(
        Counter(stored["counts"]), Counter(stored["taken_off"]), whole("lengths"), *hours
    )


def _class_of(seconds: float) -> int:
    return 0 if seconds < 1 else 1 + floor(log2(seconds) * STEPS)


def _hours(begin: datetime, end: datetime) -> Iterator[int]:
    """Yield the hour of the day of each hour that a period touches."""
    at, end = begin.astimezone(UTC), end.astimezone(UTC)
    while at < end:
        yield at.hour
        at = at.replace(minute=0, second=0, microsecond=0) + HOUR
