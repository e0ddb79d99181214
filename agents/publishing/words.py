"""The limits of a policy in words: each one, each desk's part, and what a version changed.

Labels and help are declared in core.limits and in desks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agents.core.decisions import Tier, Tiers, read_tiers
from agents.core.limits import ANY_TOOL, EACH_DESK, LIMITS, LimitField, Limits
from agents.core.money import format_money, with_unit
from agents.core.redact import CARDS, EMAILS, GONE, IBANS, NAME, OFF
from agents.core.requests import Json
from agents.policies.words import RuleLine, rule_lines
from agents.sdk.adjustments import in_words
from agents.sdk.desk import DESKS, tool_title
from agents.shell import formats
from agents.shell.formats import cost, desk_title, duration, rule_in_full, thousands, with_article

_OFTEN = {1: "once", 2: "twice"}
_TREATED = {NAME: "replaced by a name", GONE: "gone"}
MASKED = {CARDS: "card numbers", IBANS: "IBANs", EMAILS: "email addresses"}


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _counts(counts: Mapping[str, int] | None, *, others: int) -> str:
    """Return how often each tool may be called: Read the account 3 times, any other once."""
    listed = sorted((counts or {}).items())
    named = {tool_title(name): count for name, count in listed if name != ANY_TOOL}
    named["any other" if named else "any tool"] = others
    return ", ".join(
        f"{tool} {_OFTEN.get(count, f'{count} times')}" for tool, count in named.items()
    )


def _tiers(limits: Limits) -> str:
    """Return who approves what: up to EUR 1,000.00, any reviewer; above that, two of Leads."""
    texts = [
        f"{desk_title(desk)}: {'; '.join(_tier(tier, currency, tiers) for tier in tiers)}"
        for desk, held in read_tiers(limits.tiers or {}).items()
        for currency, tiers in held.items()
    ]
    return ". ".join(texts) or "any reviewer, any amount"


def _tier(tier: Tier, currency: str, among: Tiers) -> str:
    bound = (
        f"up to {format_money(tier.up_to_minor, currency)}" if tier.up_to_minor else "above that"
    )
    within = f" within {duration(tier.answer_within * 60)}" if tier.answer_within else ""
    people = "two reviewers" if tier.people > 1 else "any reviewer"
    if tier.team:
        people = f"{'two members' if tier.people > 1 else 'a member'} of {tier.team}"
    return f"{bound if len(among) > 1 else 'any amount'}, {people}{within}"


# Limits whose words need more than their own value.
_TOLD: Mapping[str, Callable[[Limits], str]] = {
    "tiers": _tiers,
    "tools": lambda p: _names(map(tool_title, p.proposable)),
    "off": lambda p: _names(tool_title(one) for one in p.proposable if one not in p.executable),
    "tool_calls": lambda p: _counts(p.tool_calls, others=p.calls_of(ANY_TOOL)),
    "tool_repeats": lambda p: _counts(p.tool_repeats, others=p.repeats_of(ANY_TOOL)),
    "redaction": lambda p: _names(
        f"{MASKED[kind]} ({_TREATED[treatment]})"
        for kind, treatment in p.redaction.items()
        if treatment != OFF
    ),
}
_IN_UNITS: Mapping[str, Callable[[Any], str]] = {
    "seconds": duration,
    "micro-USD": cost,
    "days": partial(with_unit, unit="days"),
    "times": lambda most: f"at most {with_unit(most, 'times')}" if most else "never",
    "tools": lambda names: _names(map(tool_title, names)),
}


def told(limit: LimitField, limits: Limits) -> str:
    """Return the value of one of the console's limits in words."""
    if limit.name in _TOLD:
        return _TOLD[limit.name](limits)
    own = limits if hasattr(limits, limit.name) else limits.reference
    value = getattr(own, limit.name)
    if limit.unit:
        return _IN_UNITS[limit.unit](value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return _names(value)
    if isinstance(value, int):
        return thousands(value)
    return "no cap" if value is None else str(value)


# By topic; each limit by its name in the document.
WORDS: dict[str, dict[str, LimitField]] = {
    topic: {name: one for name, one in LIMITS.items() if one.topic == topic and one.label}
    for topic in dict.fromkeys(one.topic for one in LIMITS.values() if one.label)
}
# What a desk's part of a document says, for any of its patterns; the page lists rules apart.
OF_DESK = WORDS.pop(EACH_DESK)


# A policy's section for each desk, in the desk's words.


@dataclass(frozen=True)
class LimitLine:
    """One limit: its name, what it does, and its value in its unit."""

    name: str
    means: str
    value: str


@dataclass(frozen=True)
class DeskPart:
    name: str
    title: str
    brief: str  # the brief of its agents, or that the desk is not installed here
    limits: Sequence[LimitLine]
    rules: Sequence[RuleLine]
    patterns: Mapping[str, Sequence[LimitLine]]  # what differs in each, by its name
    missing: Sequence[str]  # rules, tools and patterns of the desk that this version does not name


def desk_names(limits: Limits) -> list[str]:
    """Return the desks in a version: those installed here in their order, then others."""
    return [*(name for name in DESKS if name in limits.desks), *sorted({*limits.desks} - {*DESKS})]


def desk_parts(limits: Limits) -> list[DeskPart]:
    """Return the desks in a version, including those not installed here."""
    return [_part(name, limits) for name in desk_names(limits)]


def _part(name: str, limits: Limits) -> DeskPart:
    desk, patterns = DESKS.get(name), limits.part_of(name, "patterns")
    brief, about = "Its runs wait for a server that has it.", list[LimitLine]()
    if desk:
        brief = f"Its agents are told: “{desk.brief}”" if desk.brief else ""
        means = "Chosen at launch; the run can act on nothing else."
        about = [LimitLine("A run is about", means, with_article(desk.subject.kind))]
    return DeskPart(
        name=name,
        title=desk.title if desk else f"{name}: not installed here",
        brief=brief,
        limits=[*about, *desk_limits(name, limits)],
        rules=rule_lines(limits, name),
        patterns={pattern: desk_limits(name, limits, pattern) for pattern in patterns},
        missing=desk.missing_from(limits.desks[name]) if desk else (),
    )


def desk_limits(name: str, limits: Limits, pattern: str = "") -> list[LimitLine]:
    """Return a desk's tools and limits in its own words; of a pattern, those that differ there."""
    here, whole = limits.of(pattern, name), limits.desks[name]
    held = whole["patterns"][pattern] if pattern else whole
    lines = [] if pattern and "limits" not in held else _own(name, held.get("limits", {}))
    lines += _caps(held.get("caps", {}))
    words = dict(OF_DESK)
    if pattern:
        words |= {key: word for topic in WORDS.values() for key, word in topic.items()}
    return lines + [_line(words[key], here) for key in held if key in words]


def _line(limit: LimitField, limits: Limits) -> LimitLine:
    return LimitLine(limit.label, limit.help, told(limit, limits))


def _caps(by_currency: Mapping[str, Json]) -> list[LimitLine]:
    return [
        LimitLine(CAPS.get(key, key), "Per day (UTC) and currency.", format_money(minor, currency))
        for currency, caps in sorted(by_currency.items())
        for key, minor in caps.items()
    ]


CAPS = formats.WORDS["caps"]


def _own(name: str, held: Mapping[str, Json]) -> list[LimitLine]:
    """Return the limits that a desk declares, with defaults for those not in the document."""
    desk = DESKS.get(name)
    if desk is None:
        return [LimitLine(key, "", in_words(value)) for key, value in held.items()]
    lines = []
    for one in desk.limit_fields:
        value = in_words(held.get(one.name, one.default), {**one.schema, "unit": one.unit})
        lines.append(LimitLine(one.label, one.help, value))
    return lines


# The limits of a version by topic, and what changed from one version to the next.


def lines(
    limits: Limits, *, pattern: str = "", desk: str = ""
) -> list[tuple[str, list[LimitLine]]]:
    """Return the limits for all desks by topic; for a run of `desk`, as they are in its pattern."""
    apart = "second_admin" if desk else ""  # nothing in a run depends on it
    if desk:
        here = {name: tiers for name, tiers in (limits.tiers or {}).items() if name == desk}
        limits = replace(limits.of(pattern, desk), tiers=here or None)
    return [
        (topic, [_line(one, limits) for one in words.values() if one.name != apart])
        for topic, words in WORDS.items()
    ]


@dataclass(frozen=True)
class LimitDifference:
    """A limit that changed from one version to the next."""

    name: str
    where: str  # its desk and pattern; "" for all
    before: str
    after: str
    sentence: str = ""  # what it does now, and did before


def differences(old: Limits, new: Limits) -> list[LimitDifference]:
    """Return the changes between two versions, in the order of the page."""
    changed = []
    for one in [one for words in WORDS.values() for one in words.values()]:
        was, now = told(one, old), told(one, new)
        if was != now:
            changed.append(LimitDifference(one.label, "", *_apart(was, now)))
    for name in dict.fromkeys((*old.desks, *new.desks)):
        changed += _of_part("Desk", name, desk_title(name), old, new)
    return changed


def _of_part(
    what: str, desk: str, where: str, old: Limits, new: Limits, pattern: str = ""
) -> Iterator[LimitDifference]:
    """Yield the changes of a desk, or of one of its patterns: new or removed, and each limit."""
    held = [
        one.desks.get(desk) if not pattern else one.part_of(desk, "patterns").get(pattern)
        for one in (old, new)
    ]
    if None in held:
        yield LimitDifference(what, where, *("none" if one is None else "in force" for one in held))
        return
    was, now = (_desk_in_words(desk, limits, pattern) for limits in (old, new))
    says = {one.label: one.says for one in DESKS[desk].limit_fields} if desk in DESKS else {}
    absent = "as for any run" if pattern else "none"
    for line in dict.fromkeys((*was, *now)):
        pair = was.get(line, absent), now.get(line, absent)
        if pair[0] != pair[1]:
            told = says.get(line, "").format(f"{pair[1]}, before {pair[0]},")
            yield LimitDifference(line, where, *_apart(*pair), told)
    patterns = [one.part_of(desk, "patterns") for one in (old, new)] if not pattern else [{}]
    for one in dict.fromkeys(name for part in patterns for name in part):
        yield from _of_part("Pattern", desk, f"{where}, {one}", old, new, one)


def _desk_in_words(desk: str, limits: Limits, pattern: str) -> dict[str, str]:
    """Return the limits of a desk or of a pattern's part in words, by name, its rules last."""
    values: dict[str, list[str]] = defaultdict(list)  # a cap has one in each currency
    for line in desk_limits(desk, limits, pattern):
        values[line.name].append(line.value)
    values["Rules"] = [rule_in_full(rule) for rule in limits.of(pattern, desk).rules]
    return {name: ", ".join(of) for name, of in values.items()}


def _apart(was: str, now: str) -> tuple[str, str]:
    """Return two values; of two lists, only the items that the other lacks."""
    before, after = was.split(", "), now.split(", ")
    gone = [item for item in before if item not in after]
    new = [item for item in after if item not in before]
    if len(before) == len(after) == 1 or not gone + new:  # no lists, or in another order
        return was, now
    return ", ".join(gone) or "not there", ", ".join(new) or "gone"
