"""How many runs would flip at each value of one limit, from what its rule observed.

One pass, without judging again; no curve where that would not do.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.reviews import RulingKind
from agents.policies.flips import Proposal, outcome
from agents.sdk.desk import DESKS, rules_at
from agents.sdk.values import BadValue, Money, read_stored

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
