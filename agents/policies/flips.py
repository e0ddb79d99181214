"""The effect of another version: which runs it flips, with their money and people.

Pure: rulings go in, numbers come out, and no text of a run.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from agents.core.json_forms import Action
from agents.core.limits import LIMITS, Limits
from agents.core.requests import Json
from agents.core.reviews import ReviewResult, RulingKind
from agents.sdk.desk import DESKS, rules_at
from agents.sdk.values import BadValue, Money, read_stored

ALONE, WAITS, BLOCKED = "approve", "escalate", "block"  # outcomes are decisions, but "revise"
_READ_BY_RULES = ("proposable", "required", "critical")  # besides a desk's limits and caps
_TURNED_DOWN = ("rejected", "adjusted")  # what a person did; a flip of it is shown first
_Way: TypeAlias = tuple[str, ...]  # to flip: desk, tool, currency, was, would, rule
_Flip: TypeAlias = tuple[str, int, _Way, int, str]  # run, position, way, asked, people
SUMS = ("asked", "granted", "executed")
_MOST = 20  # flips that are kept one by one


@dataclass(frozen=True)
class Proposal:
    """One ruling on what an agent proposed, under both versions, and its outcome then.

    Amounts are in minor units of `currency`; `people` is the state of the request, or "".
    """

    position: int
    tool: str  # "": an answer
    was: ReviewResult
    would: ReviewResult
    currency: str = ""
    asked: int = 0
    granted: int = 0
    executed: int = 0
    people: str = ""


@dataclass
class FlipTable:
    """Counts run after run; `as_json` is what is kept."""

    rulings: int = 0
    runs: int = 0
    # By way to flip: runs and three sums, which are never added to each other, and what people did.
    rows: dict[_Way, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    people: dict[_Way, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    of: Counter[_Way] = field(default_factory=Counter)  # runs by what was
    same: Counter[tuple[str, str]] = field(default_factory=Counter)  # desk, tool: other arguments
    both: Counter[str] = field(default_factory=Counter)  # what people did where both ask them
    unknown: Counter[str] = field(default_factory=Counter)
    flips: list[_Flip] = field(default_factory=list)

    def add(self, run: str, desk: str, proposals: Iterable[Proposal | str]) -> None:
        """Count a run once, by its first flip. A text is why a ruling cannot be judged again."""
        known: list[Proposal] = []
        for one in proposals:
            if isinstance(one, str):
                self.unknown[one.partition(":")[0]] += 1  # the rest may quote what is stored
            else:
                known.append(one)
        self.rulings += len(known)
        self.runs += bool(known)
        self.of.update({(desk, one.tool, one.currency, outcome(one.was.decision)) for one in known})
        for one in known:
            was, would = outcome(one.was.decision), outcome(one.would.decision)
            if was == would == WAITS:
                self.both[one.people] += 1
            if was != would:
                rule = (one.was if would == ALONE else one.would).deciding.rule
                key = (desk, one.tool, one.currency, was, would, rule)
                sums = {name: getattr(one, name) for name in SUMS}
                self.rows[key].update({"runs": 1, **sums})
                self.people[key][one.people] += 1
                self.flips.append((run, one.position, key, one.asked, one.people))
                if len(self.flips) > 50 * _MOST:
                    self.flips = _in_order(self.flips)[:_MOST]
                return
        other = next((one for one in known if one.was.action != one.would.action), None)
        if other:
            self.same[desk, other.tool] += 1

    def as_json(self) -> dict[str, Json]:
        keys = sorted(self.rows, key=lambda key: (-self.rows[key]["runs"], key))
        names = ("desk", "tool", "currency", "was", "would", "rule")
        numbers = {key: number for number, key in enumerate(keys)}
        return {
            "runs": self.runs,
            "rulings": self.rulings,
            "rows": [
                dict(zip(names, key, strict=True))
                | {**self.rows[key], "people": dict(self.people[key]), "of": self.of[key[:4]]}
                for key in keys
            ],
            "same": [[*key, count] for key, count in sorted(self.same.items())],
            "both": dict(self.both),
            "unknown": dict(self.unknown),
            "flips": [
                [run, position, numbers[key], asked, people]
                for run, position, key, asked, people in _in_order(self.flips)[:_MOST]
            ],
        }


def outcome(decision: str) -> str:
    return ALONE if decision == "revise" else decision


def _in_order(flips: Sequence[_Flip]) -> list[_Flip]:
    """Order flips: those that people turned down first, then the largest, one of each rule."""
    ordered = sorted(flips, key=lambda one: (one[4] not in _TURNED_DOWN, -one[3], one[0]))
    first = {one[2][-1]: one for one in reversed(ordered)}.values()
    return sorted(ordered, key=lambda one: one not in first)


def concerned(desk: str, was: Limits, would: Limits) -> Callable[[Action], bool] | None:
    """Return which actions of a desk the second version could judge otherwise; None: no action.

    Both are limits of one pattern at the desk.
    """
    known, rules = rules_at(desk), {*was.rules, *would.rules}
    changed = {*was.rules} ^ {*would.rules}
    if was.part_of(desk, "limits") != would.part_of(desk, "limits"):
        own = DESKS[desk].rules if desk in DESKS else {}
        changed |= {name for name in rules if name in own and "limits" in own[name].takes}
    is_wide = was.caps_of(desk) != would.caps_of(desk) or any(
        getattr(was, name) != getattr(would, name) for name in _READ_BY_RULES
    )
    checks: list[Any] = [getattr(known.get(name), "concerns", None) for name in changed]
    if is_wide or None in checks:  # a rule of the console judges every action
        return lambda _: True
    if not checks:
        return None
    return lambda action: any(one(action.get("kind"), str(action.get("name"))) for one in checks)


def untried(desk: str, was: Limits, would: Limits) -> tuple[list[str], list[str]]:
    """Return the labels of changed limits whose effect rules do not show.

    First those by which facts were gathered, so that nothing stored says what would have been; then
    those that no rule reads.
    """
    kind = DESKS[desk].limits_type if desk in DESKS else None
    words = {one.name: one.metadata for one in (fields(kind) if kind else ())}
    held = [one.part_of(desk, "limits") for one in (was, would)]
    changed = [name for name in {**held[0], **held[1]} if held[0].get(name) != held[1].get(name)]
    own = [words[name] for name in changed if name in words]
    unknown = [one["label"] for one in own if one.get("gathered")]
    others: list[str] = []
    flat = [{**vars(one), **vars(one.reference), "tools": one.proposable} for one in (was, would)]
    for one in flat:
        one["off"] = {*one["proposable"]} - {*one["executable"]}
    for name, limit in LIMITS.items():
        is_shown = not limit.label or name in _READ_BY_RULES
        if not is_shown and flat[0].get(name) != flat[1].get(name):
            (unknown if limit.gathered else others).append(limit.label)
    return unknown, others


# How many runs would flip at each value of one limit, from what its rule observed.
#
# One pass, without judging again; no curve where that would not do.


_STEPS = 20
# The ruling on a value that is not over such a limit, and on one that is.
_SAYS = {False: RulingKind.APPROVE, True: RulingKind.ESCALATE}


@dataclass
class Curve:
    """The runs that flip at some values of a limit, and what their agents asked for."""

    desk: str
    name: str
    was: int
    would: int
    rule: str = ""
    unit: str = ""
    is_known: bool = True
    tools: set[str] = field(default_factory=set)  # that the rule judged
    of: Counter[str] = field(default_factory=Counter)  # runs by what was, as in a FlipTable
    said: set[tuple[bool, RulingKind]] = field(default_factory=set)
    silent: set[tuple[str, str]] = field(default_factory=set)  # actions that the rule did not judge

    def __post_init__(self) -> None:
        step = _rounded(max(self.was, self.would) * 3 // (2 * _STEPS))
        self.points = sorted({*range(0, step * _STEPS + 1, step), self.was, self.would})
        self.runs, self.asked = [0] * len(self.points), [0] * len(self.points)

    def add(self, desk: str, proposals: Sequence[Proposal | str]) -> None:
        """Count a run at each point, by its first flip there. Texts are as in a FlipTable."""
        known = [one for one in proposals if isinstance(one, Proposal)]
        seen = [(one, *self._see(one)) for one in known] if desk == self.desk else []
        self.of.update(
            {outcome(one.was.decision) for one, observed, *_ in seen if observed is not None}
        )
        for number, point in enumerate(self.points):
            for one, observed, within, over in seen:
                if (over if (observed or 0) > point else within) != outcome(one.was.decision):
                    self.runs[number] += 1
                    self.asked[number] += one.asked if one.currency == self.unit else 0
                    break

    def _see(self, one: Proposal) -> tuple[int | None, str, str]:
        """Return what the rule observed, and the outcomes within the limit and over it."""
        limits, after = (self.was, self.would), {each.rule: each for each in one.would.rulings}
        pairs = [(each, after[each.rule]) for each in one.was.rulings if each.rule in after]
        moved = [pair for pair in pairs if tuple(each.limit for each in pair) == limits]
        moved = [pair for pair in moved if type(pair[0].observed) is int]
        outcomes = outcome(one.was.decision), outcome(one.would.decision)
        if not moved:
            self.silent.add((one.was.action.get("kind", ""), one.tool))
            self.is_known &= outcomes[0] == outcomes[1]
            return None, outcomes[1], outcomes[1]
        rule, observed = moved[0][0].rule, moved[0][0].observed
        self.rule, self.unit = rule, moved[0][0].unit
        self.tools.add(one.tool)
        others = [each.verdict for each in one.would.rulings if each.rule != rule]
        within, over = (outcome(max([kind, *others]).word) for kind in _SAYS.values())
        self.said |= {(each.observed > each.limit, each.verdict) for each in moved[0]}
        found = tuple(over if observed > limit else within for limit in limits)
        self.is_known &= len(moved) == 1 and found == outcomes
        return observed, within, over

    def as_json(self) -> Json:
        """Return the points, each with its runs and the sum they asked for; None: not known."""
        concerns = getattr(rules_at(self.desk).get(self.rule), "concerns", None)
        is_whole = concerns and not any(concerns(*one) for one in self.silent)
        if not (self.is_known and is_whole and self.said == {*_SAYS.items()}):
            return None
        points = [list(one) for one in zip(self.points, self.runs, self.asked, strict=True)]
        about = {name: getattr(self, name) for name in ("desk", "name", "was", "would", "unit")}
        return {**about, "tools": sorted(self.tools), "of": dict(self.of), "points": points}


def curve_of(was: Limits, would: Limits) -> Curve | None:
    """Return an empty curve if the versions differ in one number or amount of one desk only."""
    for name in {*was.desks} & {*would.desks} & {*DESKS}:
        old, new, kind = was.desks[name], would.desks[name], DESKS[name].limits_type
        same = {**new, "limits": old.get("limits", {})}
        is_only = replace(would, desks={**would.desks, name: same}) == was
        is_of_all = not any("limits" in part for part in new.get("patterns", {}).values())
        if old == new or not is_only or not is_of_all or kind is None:
            continue
        try:
            held = [vars(read_stored(kind, one.get("limits", {}))) for one in (old, new)]
        except BadValue:
            continue
        changed = [key for key in held[0] if held[0][key] != held[1][key]]
        values = [one[key] for one in held for key in changed]
        if len(values) == 2 and all(isinstance(one, int | Money) for one in values):
            return Curve(name, changed[0], int(values[0]), int(values[1]))
    return None


def _rounded(step: int) -> int:
    """Return the next of 1, 2, 5, 10, 20 and so on."""
    scale: int = 10 ** (len(str(max(step, 1))) - 1)
    return next(one * scale for one in (1, 2, 5, 10) if one * scale >= step)
