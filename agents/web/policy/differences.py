"""The limits of a version by topic, and what changed from one version to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agents.core.limits import Limits
from agents.shell.formats import desk_title, rule_in_full
from agents.web.policy.desk_sections import desk_limits
from agents.web.policy.limits import WORDS


@dataclass(frozen=True)
class LimitLine:
    """One limit: its name, what it does, and its value."""

    name: str
    means: str
    value: str


def lines(
    limits: Limits, *, pattern: str = "", desk: str = ""
) -> list[tuple[str, list[LimitLine]]]:
    """Return the limits for all desks by topic; for a run of `desk`, as they are in its pattern."""
    if desk:
        tiers = limits.tiers or {}
        here = {desk: tiers[desk]} if desk in tiers else None
        limits = replace(limits.of(pattern, desk), tiers=here)
    return [
        (topic, [LimitLine(word.name, word.means, word.told(limits)) for word in words.values()])
        for topic, words in WORDS.items()
    ]


@dataclass(frozen=True)
class LimitDifference:
    """A limit that changed from one version to the next."""

    name: str
    where: str  # its desk and pattern; "" for all
    before: str
    after: str


def differences(old: Limits, new: Limits) -> list[LimitDifference]:
    """Return the changes between two versions, in the order of the page."""
    said = [
        (word.name, word.told(old), word.told(new))
        for words in WORDS.values()
        for word in words.values()
    ]
    found = [LimitDifference(name, "", *_apart(was, now)) for name, was, now in said if was != now]
    for name in dict.fromkeys((*old.desks, *new.desks)):
        found += _of_part("Desk", name, desk_title(name), old, new)
    return found


def _of_part(
    what: str, desk: str, where: str, old: Limits, new: Limits, pattern: str = ""
) -> Iterator[LimitDifference]:
    """Yield the changes of a desk, or of one of its patterns: new or removed, and each limit."""
    held = [
        one.desks.get(desk) if not pattern else one.part_of(desk, "patterns").get(pattern)
        for one in (old, new)
    ]
    if None in held:
        states = ["none" if part is None else "in force" for part in held]
        yield LimitDifference(what, where, *states)
        return
    was, now = (_told(desk, limits, pattern) for limits in (old, new))
    for line in dict.fromkeys((*was, *now)):
        pair = was.get(line, _AS_ELSEWHERE), now.get(line, _AS_ELSEWHERE)
        if pair[0] != pair[1]:
            yield LimitDifference(line, where, *_apart(*pair))
    patterns = [one.part_of(desk, "patterns") for one in (old, new)] if not pattern else [{}]
    for one in dict.fromkeys(name for part in patterns for name in part):
        yield from _of_part("Pattern", desk, f"{where}, {one}", old, new, one)


_AS_ELSEWHERE = "as for any run"


def _told(desk: str, limits: Limits, pattern: str) -> dict[str, str]:
    """Return the limits of a desk or of a pattern's part in words, by name, its rules last."""
    told = {line.name: line.value for line in desk_limits(desk, limits, pattern)}
    here = limits.of(pattern, desk)
    return told | {"Rules": ", ".join(map(rule_in_full, here.rules))}


def _apart(was: str, now: str) -> tuple[str, str]:
    """Return two values; of two lists, only the items that the other lacks."""
    before, after = was.split(", "), now.split(", ")
    gone = [item for item in before if item not in after]
    new = [item for item in after if item not in before]
    if len(before) == len(after) == 1 or not gone + new:  # no lists, or in another order
        return was, now
    return ", ".join(gone) or "not there", ", ".join(new) or "gone"
