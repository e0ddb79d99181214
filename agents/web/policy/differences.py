"""The limits of a version by topic, and what changed from one version to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agents.core.former import FIRST_DESK
from agents.core.limits import Limits
from agents.sdk.desk import DESKS
from agents.web.formats import desk_title
from agents.web.policy.desk_sections import desk_limits, pattern_limits
from agents.web.policy.limits import OF_FIRST, WORDS, Told


@dataclass(frozen=True)
class LimitLine:
    """One limit: its name, what it does, and its value for each pattern."""

    name: str
    means: str
    values: tuple[tuple[str, str], ...]  # pattern and value; one with "" if all are equal


def lines(
    limits: Limits, *, patterns: Sequence[str], desk: str = ""
) -> list[tuple[str, list[LimitLine]]]:
    """Return the limits of some patterns by topic, except rules, which are shown separately.

    Without rules of the first desk, only limits that apply to any desk remain; for a run of
    `desk`, those of other desks are left out.
    """
    is_first = desk == FIRST_DESK if desk else limits.covers(FIRST_DESK)
    limits = _of_one(limits, desk, *patterns) if desk else limits
    names, hidden = (list(patterns), {"rules"}) if is_first else ([], OF_FIRST)
    by_topic = [
        (
            topic,
            [
                LimitLine(word.name, word.means, _values(word.told, limits, names))
                for key, word in words.items()
                if key not in hidden
            ],
        )
        for topic, words in WORDS.items()
    ]
    return [(topic, found) for topic, found in by_topic if found]


def _of_one(limits: Limits, desk: str, pattern: str) -> Limits:
    """Return the limits of a desk's runs of a pattern, without other desks' tiers and tools."""
    tiers = limits.tiers or {}
    here = {desk: tiers[desk]} if desk in tiers else None
    if desk == FIRST_DESK:
        return replace(limits, tiers=here)
    own = limits.of(pattern, desk)
    calls, repeats = (
        {tool: n for tool, n in (counts or {}).items() if tool in own.executable}
        for counts in (own.tool_calls, own.tool_repeats)
    )
    return replace(own, tiers=here, tool_calls=calls, tool_repeats=repeats)


def _values(told: Told, limits: Limits, names: list[str]) -> tuple[tuple[str, str], ...]:
    each = tuple((name, told(limits.of(name))) for name in names) or (("", told(limits)),)
    return (("", each[0][1]),) if len({value for _, value in each}) == 1 else each


@dataclass(frozen=True)
class LimitDifference:
    """A limit that changed from one version to the next."""

    name: str
    where: str  # its patterns or desk; "" for all
    before: str
    after: str


def differences(old: Limits, new: Limits, *, patterns: Iterable[str]) -> list[LimitDifference]:
    """Return the changes between two versions, in the order of the page."""
    names = list(patterns)
    pairs = {name: (old.of(name), new.of(name)) for name in names}
    is_gone_or_new = old.covers(FIRST_DESK) != new.covers(FIRST_DESK)
    hidden = OF_FIRST | {"tool_calls", "tool_repeats"} if is_gone_or_new else set()
    all_words = [item for words in WORDS.values() for item in words.items()]
    found = []
    for word in (word for key, word in all_words if key not in hidden):
        changed: dict[tuple[str, str], list[str]] = {}
        for name, (before, after) in pairs.items():
            said = word.told(before), word.told(after)
            if said[0] != said[1]:
                changed.setdefault(said, []).append(name)
        for (was, now), where in changed.items():
            told = "" if where == names else ", ".join(where)
            found.append(LimitDifference(word.name, told, *_apart(was, now)))
    return found + _of_desks(old, new)


def _of_desks(old: Limits, new: Limits) -> list[LimitDifference]:
    """Return the changes of declared desks: new or removed desks, and each limit."""
    before, after = old.desks or {}, new.desks or {}
    found = []
    if (was := old.covers(FIRST_DESK)) != new.covers(FIRST_DESK):
        told = ("in force", "none") if was else ("none", "in force")
        found.append(LimitDifference("Desk", desk_title(FIRST_DESK), *told))
    for name in sorted(before.keys() | after.keys()):
        title = DESKS[name].title if name in DESKS else name
        if name not in before or name not in after:
            told = ("none", "in force") if name in after else ("in force", "none")
            found.append(LimitDifference("Desk", title, *told))
            continue
        pairs = zip(desk_limits(name, before[name]), desk_limits(name, after[name]), strict=False)
        found += [
            LimitDifference(was.name, title, *_apart(was.value, now.value))
            for was, now in pairs
            if was.value != now.value
        ]
        rules = [", ".join(part[name]["rules"]) for part in (before, after)]
        if rules[0] != rules[1]:
            found.append(LimitDifference("Rules", title, *_apart(*rules)))
        found += _of_patterns(name, title, old, new)
    return found


def _of_patterns(desk: str, title: str, old: Limits, new: Limits) -> Iterator[LimitDifference]:
    """Yield the changes in the patterns of a desk: new or removed ones, and each limit."""
    before, after = ((one.desks or {})[desk].get("patterns", {}) for one in (old, new))
    for pattern in dict.fromkeys((*before, *after)):
        where = f"{title}, {pattern}"
        if pattern not in before or pattern not in after:
            told = ("none", "in force") if pattern in after else ("in force", "none")
            yield LimitDifference("Pattern", where, *told)
            continue
        was, now = (
            {line.name: line.value for line in pattern_limits(desk, pattern, limits)}
            for limits in (old, new)
        )
        for line in dict.fromkeys((*was, *now)):
            pair = was.get(line, "as for any run"), now.get(line, "as for any run")
            if pair[0] != pair[1]:
                yield LimitDifference(line, where, *_apart(*pair))


def _apart(was: str, now: str) -> tuple[str, str]:
    """Return two values; of two lists, only the items that the other lacks."""
    before, after = was.split(", "), now.split(", ")
    gone = [item for item in before if item not in after]
    new = [item for item in after if item not in before]
    if len(before) == len(after) == 1 or not gone + new:  # no lists, or in another order
        return was, now
    return ", ".join(gone) or "not there", ", ".join(new) or "gone"
