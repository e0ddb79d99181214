"""The effect of another version: which runs it flips, with their money and people.

Pure: rulings go in, numbers come out, and no text of a run.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import takewhile
from typing import Any, TypeAlias

from agents.core.json_forms import Action
from agents.core.limits import LIMITS, Limits
from agents.core.requests import Json
from agents.core.reviews import ReviewResult, RulingKind
from agents.sdk.desk import DESKS, rules_at
from agents.sdk.values import BadValue, Money, read_stored, write

# Outcomes are decisions. A call is revised only if another amount is allowed than was asked for.
ALONE, REVISED, WAITS, BLOCKED = "approve", "revise", "escalate", "block"
_READ_BY_RULES = ("proposable", "required", "critical")  # besides a desk's limits and caps
_TURNED_DOWN = ("rejected", "adjusted")  # what a person did; a flip of it is shown first
_Way: TypeAlias = tuple[str, ...]  # to flip: desk, tool, currency, was, would, rule
_Flip: TypeAlias = tuple[str, int, _Way, int, str]  # run, position, way, asked, people
SUMS = ("asked", "granted", "executed")
_MOST = 20  # flips that are kept one by one


@dataclass(frozen=True)
class Proposal:
    """One ruling on what an agent proposed, under both versions, and its outcome then.

    Amounts are in minor units of `currency`; `people` is the state of the request, or "". Each
    version may lower what was asked for, by the amounts in `lowered`.
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
    lowered: Sequence[int] = (0, 0)
    strictest: ReviewResult | None = None  # under the strictest value of a curve's limit

    @property
    def outcomes(self) -> list[str]:
        return [
            REVISED if less and ruled.allows else outcome(ruled.decision)
            for ruled, less in zip((self.was, self.would), self.lowered, strict=True)
        ]


@dataclass
class FlipTable:
    """Counts run after run; `as_json` is what is kept."""

    rulings: int = 0
    runs: int = 0
    # By way to flip: runs and sums, which are never added to each other, and what people did. If
    # the outcome is the same, its words or its amount are not.
    rows: dict[_Way, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    people: dict[_Way, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    of: Counter[_Way] = field(default_factory=Counter)  # runs by what was, in any currency
    both: Counter[str] = field(default_factory=Counter)  # what people did where both ask them
    unknown: Counter[str] = field(default_factory=Counter)
    flips: list[_Flip] = field(default_factory=list)

    def add(self, run: str, desk: str, proposals: Sequence[Proposal | str]) -> None:
        """Count a run once, by its first flip. A text is why a ruling cannot be judged again."""
        known = [one for one in proposals if isinstance(one, Proposal)]
        texts = [one for one in proposals if isinstance(one, str)]
        self.unknown.update(text.partition(":")[0] for text in texts)  # the rest may quote a value
        self.rulings += len(known)
        self.runs += bool(known)
        self.of.update({(desk, one.tool, outcome(one.was.decision)) for one in known})
        same = [*takewhile(lambda one: len({*one.outcomes}) == 1, known)]
        self.both.update(one.people for one in same if WAITS in one.outcomes)
        others = [one for one in same if one.was.action != one.would.action]
        for one in [*known[len(same) :], *others][:1]:
            was, would = one.outcomes
            rule = (one.was if would == ALONE else one.would).deciding.rule
            key = (desk, one.tool, one.currency, was, would, rule if was != would else "")
            sums = {name: getattr(one, name) for name in SUMS}
            self.rows[key].update({"runs": 1, **sums, "lowered": one.lowered[1]})
            self.people[key][one.people] += 1
            if was != would:
                self.flips.append((run, one.position, key, one.asked, one.people))
            if len(self.flips) > 50 * _MOST:
                self.flips = _in_order(self.flips)[:_MOST]

    def as_json(self) -> dict[str, Json]:
        names = ("desk", "tool", "currency", "was", "would", "rule")
        keys = sorted(self.rows, key=lambda key: (key[3] == key[4], -self.rows[key]["runs"], key))
        of = {key: self.of[key[0], key[1], outcome(key[3])] for key in keys}
        return {
            "runs": self.runs,
            "rulings": self.rulings,
            "rows": [
                dict(zip(names, key, strict=True))
                | {**self.rows[key], "people": dict(self.people[key]), "of": of[key]}
                for key in keys
            ],
            "both": dict(self.both),
            "unknown": dict(self.unknown),
            "flips": [
                [run, position, keys.index(key), asked, people]
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
    held = [one.part_of(desk, "limits") for one in (was, would)]
    own = [one for one in (fields(kind) if kind else ()) if one.metadata.get("gathered")]
    changed = [one for one in own if held[0].get(one.name) != held[1].get(one.name)]
    unknown = [one.metadata["label"] for one in changed]
    others: list[str] = []
    flat = [{**vars(one), **vars(one.reference), "tools": one.proposable} for one in (was, would)]
    for one in flat:
        one["off"] = {*one["proposable"]} - {*one["executable"]}
    for name, limit in LIMITS.items():
        is_shown = not limit.label or name in _READ_BY_RULES
        if not is_shown and flat[0].get(name) != flat[1].get(name):
            (unknown if limit.gathered else others).append(limit.label)
    return unknown, others


# How many runs would flip at each value of one limit, from what its rules observed.
#
# One pass: each call is judged again, by the strictest value. No curve where that would not do.


_STEPS = 20
_STRICTEST = 1  # at which every rule of a limit says what it observed
_SAYS = (RulingKind.APPROVE, RulingKind.ESCALATE)  # such a rule, within the limit and over it


@dataclass
class Curve:
    """The runs that flip at some values of a limit, and what their agents asked for."""

    desk: str
    name: str
    was: int
    would: int
    strictest: Limits
    unit: str = ""
    is_known: bool = True
    tools: set[str] = field(default_factory=set)  # that its rules judged
    of: Counter[str] = field(default_factory=Counter)  # runs by what was, as in a FlipTable
    seen: set[str] = field(default_factory=set)  # outcomes that were up to the limit

    def __post_init__(self) -> None:
        step = _rounded(max(self.was, self.would) * 3 // (2 * _STEPS))
        self.points = sorted({*range(0, step * _STEPS + 1, step), self.was, self.would})
        self.runs, self.asked = [0] * len(self.points), [0] * len(self.points)

    def add(self, desk: str, proposals: Sequence[Proposal | str]) -> None:
        """Count a run at each point, by its first flip there. Texts are as in a FlipTable."""
        known = [one for one in proposals if isinstance(one, Proposal) and desk == self.desk]
        judged = [(one, *found) for one in known if (found := self._see(one))]
        self.of.update({outcome(one.was.decision) for one, *_ in judged})
        for number, point in enumerate(self.points):
            for one, observed, decides in judged:
                if decides and (observed > point) != (observed > self.was):
                    self.runs[number] += 1
                    self.asked[number] += one.asked if one.currency == self.unit else 0
                    break

    def _see(self, one: Proposal) -> tuple[int, bool] | None:
        """Return the most that its rules observed, and whether it decides; None: not judged."""
        rulings = one.strictest.rulings if one.strictest else ()
        numbers = [each for each in rulings if type(each.observed) is int]
        version = one.was if self.was != _STRICTEST else one.would  # where 1 is of another limit
        fixed = {each.rule for each in version.rulings if each.limit == _STRICTEST}
        at_least = [each for each in numbers if each.limit == _STRICTEST]
        moved = [each for each in at_least if each.rule not in fixed]
        observed = max((each.observed for each in moved), default=0)
        others = [each.verdict for each in rulings if each not in moved]
        within, over = (outcome(max([kind, *others]).word) for kind in _SAYS)
        expected = [over if observed > limit else within for limit in (self.was, self.would)]
        self.is_known &= expected == [outcome(each.decision) for each in (one.was, one.would)]
        if not moved:
            return None
        self.is_known &= {each.unit for each in moved} == {self.unit or moved[0].unit}
        self.unit = moved[0].unit
        self.tools.add(one.tool)
        if within != over:
            self.seen |= {over, *expected}
        return observed, within != over

    def as_json(self) -> Json:
        """Return the points, each with its runs and the sum they asked for; None: not known."""
        if not (self.is_known and self.seen == {ALONE, WAITS}):
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
        with suppress(BadValue):
            before, after = (read_stored(kind, one.get("limits", {})) for one in (old, new))
            changed = [key for key, value in vars(after).items() if value != vars(before)[key]]
            value = getattr(after, changed[0]) if len(changed) == 1 else None
            if not isinstance(value, int | Money):
                continue
            unit = [value.unit] if isinstance(value, Money) else []
            limits = write(replace(after, **{changed[0]: type(value)(_STRICTEST, *unit)}))
            read_stored(kind, limits)  # it may be below the least of the limit
            strictest = replace(would, desks={**would.desks, name: {**new, "limits": limits}})
            return Curve(name, changed[0], int(vars(before)[changed[0]]), int(value), strictest)
    return None


def _rounded(step: int) -> int:
    """Return the next of 1, 2, 5, 10, 20 and so on."""
    scale: int = 10 ** (len(str(max(step, 1))) - 1)
    return next(one * scale for one in (1, 2, 5, 10) if one * scale >= step)
