"""The limits of a policy in words: each one, each desk's part, and what a version changed.

One long table, for looking up; docs/policy.md is written from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from agents.core.decisions import Tier, Tiers, read_tiers
from agents.core.limits import ANY_TOOL, Limits, strict
from agents.core.money import format_money, with_unit
from agents.core.redact import CARDS, EMAILS, GONE, IBANS, NAME, OFF
from agents.core.requests import Json
from agents.policies import RULES
from agents.policies.words import RuleLine, rule_lines, words_of
from agents.sdk.adjustments import in_words
from agents.sdk.desk import DESKS, Desk, tool_title
from agents.shell.formats import cost, desk_title, duration, rule_in_full, thousands, with_article

_Told: TypeAlias = Callable[[Limits], str]
_OFTEN = {1: "once", 2: "twice"}
_TREATED = {NAME: "replaced by a name", GONE: "gone"}
_MASKED = {CARDS: "card numbers", IBANS: "IBANs", EMAILS: "email addresses"}


@dataclass(frozen=True)
class _Words:
    """A limit's name, how its value is written, what it does and what happens beyond it."""

    name: str
    told: _Told
    means: str


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _counts(counts: Mapping[str, int] | None, *, others: int) -> str:
    """Say how often each tool may be called: Read the account 3 times, any other once."""
    listed = sorted((counts or {}).items())
    named = {tool_title(name): count for name, count in listed if name != ANY_TOOL}
    named["any other" if named else "any tool"] = others
    return ", ".join(
        f"{tool} {_OFTEN.get(count, f'{count} times')}" for tool, count in named.items()
    )


def _most(count: int | None) -> str:
    return "no cap" if count is None else thousands(count)


def _tiers(limits: Limits) -> str:
    """Return who approves what: up to EUR 1,000.00, any reviewer; above that, two of Leads."""
    told = [
        f"{desk_title(desk)}: {'; '.join(_tier(tier, currency, tiers) for tier in tiers)}"
        for desk, held in read_tiers(limits.tiers or {}).items()
        for currency, tiers in held.items()
    ]
    return ". ".join(told) or "any reviewer, any amount"


def _tier(tier: Tier, currency: str, among: Tiers) -> str:
    bound = (
        f"up to {format_money(tier.up_to_minor, currency)}" if tier.up_to_minor else "above that"
    )
    within = f" within {duration(tier.answer_within * 60)}" if tier.answer_within else ""
    return f"{bound if len(among) > 1 else 'any amount'}, {who_approves(tier)}{within}"


def who_approves(tier: Tier) -> str:
    """Return who approves what falls into a tier: two members of Leads."""
    is_two = tier.people > 1
    if tier.team:
        return f"{'two members' if is_two else 'a member'} of {tier.team}"
    return "two reviewers" if is_two else "any reviewer"


_PEOPLE = {
    "inbox": _Words(
        "Human approval enabled",
        lambda p: _yes(p.inbox),
        "If no, a run stops where it would have asked a reviewer.",
    ),
    "escalation_seconds": _Words(
        "Time to decide",
        lambda p: duration(p.escalation_seconds),
        "A request that nobody decides within this time is rejected automatically.",
    ),
    "four_eyes": _Words(
        "No self-approval",
        lambda p: _yes(p.four_eyes),
        "If yes, nobody can decide the requests of a run that they launched, or of one that "
        "repeats it.",
    ),
    "max_empty_ends": _Words(
        "Ends asked about, per run",
        lambda p: (
            f"at most {with_unit(p.max_empty_ends, 'times')}" if p.max_empty_ends else "never"
        ),
        "An agent whose answer claims that something was done or will be, while nothing was "
        "carried out, blocked or put to a person, is told so and may propose the call or say why "
        "not.",
    ),
    "max_send_backs": _Words(
        "Requests sent back, per run",
        lambda p: (
            f"at most {with_unit(p.max_send_backs, 'times')}" if p.max_send_backs else "never"
        ),
        "A reviewer may send a request back instead of rejecting it: the agent gets the reason and "
        "may propose something else, which waits for a reviewer again. After that many, the "
        "requests of the run can only be approved, changed or rejected.",
    ),
    "tiers": _Words(
        "Who approves which amounts",
        _tiers,
        "The amount that is asked for picks the tier. Members of its team, or of a higher tier's, "
        "may approve within their own limits; anyone who reviews may reject. With two people, the "
        "request waits until a second person has approved exactly what the first did. A tier that "
        "does not answer in its time passes the request on to the next.",
    ),
    "open_per_launcher": _Words(
        "Requests waiting, per launcher",
        lambda p: _most(p.open_per_launcher),
        "With this many waiting, the same person cannot launch more runs until some are decided.",
    ),
    "open_per_subject": _Words(
        "Requests waiting, per subject",
        lambda p: _most(p.open_per_subject),
        "With this many waiting about one subject, nobody can launch more runs about "
        "it until some are decided.",
    ),
    "hand_over": _Words(
        "Unsolved cases go to people",
        lambda p: _yes(p.hand_over),
        "If yes, a case that every specialist declines waits for a reviewer to take it over. If "
        "no, its run stops.",
    ),
}
# What a desk's part of a document says, for any of its patterns; the page lists rules apart.
OF_DESK = {
    "tools": _Words(
        "Tools",
        lambda p: _names(map(tool_title, p.proposable)),
        "Any other tool is refused before the rules are checked.",
    ),
    "off": _Words(
        "Tools that are off",
        lambda p: _names(tool_title(tool) for tool in p.proposable if tool not in p.executable),
        "The agent may propose them, and they are refused when they are called.",
    ),
    "tool_calls": _Words(
        "Calls of one tool in a run",
        lambda p: _counts(p.tool_calls, others=p.calls_of(ANY_TOOL)),
        "An agent that proposes one more is told so, as it seems to be in a loop. If it cannot be "
        "told, the run stops.",
    ),
    "tool_repeats": _Words(
        "The same call in a run",
        lambda p: _counts(p.tool_repeats, others=p.repeats_of(ANY_TOOL)),
        "How often one tool may be called with exactly the same values. An agent that does so "
        "once more is told so. If it cannot be told, the run stops.",
    ),
    "rolling_days": _Words(
        "Amounts are added up over",
        lambda p: with_unit(p.rolling_days, "days"),
        "In this period, what was paid for the same thing without approval counts as one sum, and "
        "so does what one reviewer approved: a large amount cannot be split into small ones.",
    ),
    "required": _Words(
        "Required sources",
        lambda p: _names(map(tool_title, p.required)),
        "A plan for a report that leaves one of them out is blocked.",
    ),
    "critical": _Words(
        "Critical sources",
        lambda p: _names(map(tool_title, p.critical)),
        "If one of them fails, no report is written.",
    ),
    "calls_per_minute": _Words(
        "Calls of an agent in a minute",
        lambda p: thousands(p.calls_per_minute),
        "How often an agent that runs elsewhere may open a session or propose, in all its "
        "sessions together. Further calls are refused until a minute has passed.",
    ),
    "idle_seconds": _Words(
        "Idle time of an agent's session",
        lambda p: duration(p.idle_seconds),
        "After so long without a call, while nothing waits for a person, the session of an agent "
        "that runs elsewhere is closed.",
    ),
}
_TOOL_LIMITS = {
    "profile": _Words("Profile", lambda p: p.profile, "The name of this set of rules and limits."),
    "call_seconds": _Words(
        "Time for one call",
        lambda p: duration(p.call_seconds),
        "A tool that takes longer counts as failed. A tool's own limit may be shorter.",
    ),
    "errors_fail": _Words(
        "A tool's error fails the step",
        lambda p: _yes(p.reference.errors_fail),
        "If no, a step whose tool reported an error is shown as if it had worked.",
    ),
}
_BUDGETS = {
    "max_steps": _Words(
        "Steps",
        lambda p: thousands(p.max_steps),
        "Actions the agent may propose in one run. The next one stops the run.",
    ),
    "max_blocks": _Words(
        "Second chances after a block",
        lambda p: thousands(p.max_blocks),
        "How often in a run the agent is told why it was blocked and may propose something else. "
        "The next block stops the run.",
    ),
    "max_tool_calls": _Words(
        "Tool calls",
        lambda p: thousands(p.max_tool_calls),
        "How often one run may call tools. An agent that proposes one more is told so and may "
        "answer; if it cannot be told, the run stops.",
    ),
    "max_seconds": _Words(
        "Working time",
        lambda p: duration(p.max_seconds),
        "Time that models and tools take; waiting for people does not count. When it is used up, "
        "the run stops.",
    ),
    "max_tokens": _Words(
        "Tokens",
        lambda p: thousands(p.max_tokens),
        "Text that models read and write in one run, about four letters each. When they are used "
        "up, the run stops.",
    ),
    "max_cost_micro_usd": _Words(
        "Model cost",
        lambda p: cost(p.max_cost_micro_usd),
        "What one run may spend on models. When it is used up, the run stops.",
    ),
    "outlasts_outages": _Words(
        "Waits out model outages",
        lambda p: _yes(p.outlasts_outages),
        "If yes, a run waits while the model's server is down and continues afterwards. If no, it "
        "stops.",
    ),
    "finishes_letters": _Words(
        "Letters are finished when time is up",
        lambda p: _yes(p.finishes_letters),
        "If yes, a run that has paid still writes the letter about it after its working time is "
        "used up.",
    ),
    "late": _Words(
        "May run past the working time",
        lambda p: _names(p.late),
        "Models and tools that are still used when the working time is used up.",
    ),
    "late_calls": _Words(
        "Finishes calls under way",
        lambda p: _yes(p.reference.late_calls),
        "If yes, the result of a call that began in time is used even if it comes too late.",
    ),
    "finalize": _Words(
        "Closing answer after the last step",
        lambda p: _yes(p.reference.finalize),
        "If yes, an agent that has used all its steps is asked once more, for a closing answer.",
    ),
}
_PATTERNS = {
    "call_attempts": _Words(
        "Attempts at a task",
        lambda p: thousands(p.call_attempts),
        "How often a report's task is tried when it takes too long. Then it counts as failed.",
    ),
    "at_once": _Words(
        "Tasks side by side",
        lambda p: thousands(p.at_once),
        "How many tasks of a report run at the same time, or how many calls of an agent that runs "
        "elsewhere may wait for people side by side.",
    ),
    "judge": _Words(
        "A model may judge drafts",
        lambda p: _yes(p.judge),
        "If no, workflows whose drafts a model would judge cannot be launched.",
    ),
    "max_reorients": _Words(
        "Corrections per draft",
        lambda p: with_unit(p.max_reorients, "times"),
        "How often the judging model may send one draft back. If it objects again, a reviewer "
        "decides. What the agent rewrites by itself does not count.",
    ),
}
# Flags for replaying recorded cases only; all are off in the strict profile.
_REPLAYS = {
    "forget_refusals": _Words(
        "Only the latest refusal counts",
        lambda p: _yes(p.reference.forget_refusals),
        "If yes, only the specialist who declined last may not be asked again.",
    ),
    "self_reported": _Words(
        "Count only self-reported deviations",
        lambda p: _yes(p.reference.self_reported),
        "If yes, a draft counts as off its plan only where its agent says so itself.",
    ),
    "marker_word": _Words(
        "Stop word ends iteration",
        lambda p: _yes(p.reference.marker_word),
        "If yes, a draft is final once its agent writes the word CONVERGED.",
    ),
}
_PRIVACY = {
    "redaction": _Words(
        "Masked before anything is kept",
        lambda p: _names(
            f"{_MASKED[kind]} ({_TREATED[treatment]})"
            for kind, treatment in p.redaction.items()
            if treatment != OFF
        ),
        "Wherever people, models or tools write them. A name stands for the same value everywhere, "
        "so the policy can compare it, and only tools and people who decide get the value. What is "
        "gone nobody gets, and a call that would need it is blocked. Keys and passwords are gone "
        "under every policy; docs/personal-data.md lists the forms that are found.",
    ),
}
# By topic; each limit by its name in the document.
WORDS: dict[str, dict[str, _Words]] = {
    "People": _PEOPLE,
    "Rules and tools": _TOOL_LIMITS,
    "Budgets of a run": _BUDGETS,
    "Reports, cases and workflows": _PATTERNS,
    "Compatibility with recorded cases": _REPLAYS,
    "Personal data": _PRIVACY,
}


# A policy's section for each desk, in the desk's words.


@dataclass(frozen=True)
class LimitLine:
    """One limit: its name, what it does, and its value in its unit."""

    name: str
    means: str
    value: str


@dataclass(frozen=True)
class DeskPart:
    """One desk of a version."""

    name: str
    title: str
    brief: str  # the brief of its agents, or that the desk is not installed here
    limits: Sequence[LimitLine]
    rules: Sequence[RuleLine]
    patterns: Mapping[str, Sequence[LimitLine]]  # what differs in each, by its name
    missing: Sequence[str]  # rules, tools and patterns of the desk that this version does not name


def desk_names(limits: Limits) -> list[str]:
    """Return the desks in a version: those installed here in their order, then others."""
    return [
        *(name for name in DESKS if name in limits.desks),
        *sorted({*limits.desks} - {*DESKS}),
    ]


def desk_parts(limits: Limits) -> list[DeskPart]:
    """Return the desks in a version, including those not installed here."""
    return [_part(name, limits) for name in desk_names(limits)]


def _part(name: str, limits: Limits) -> DeskPart:
    desk, patterns = DESKS.get(name), limits.part_of(name, "patterns")
    return DeskPart(
        name=name,
        title=desk.title if desk else f"{name}: not installed here",
        brief=_brief(desk),
        limits=[*_about(name), *desk_limits(name, limits)],
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
    shown = [words[key] for key in held if key in words]
    return lines + [LimitLine(word.name, word.means, word.told(here)) for word in shown]


def _brief(desk: Desk | None) -> str:
    if desk is None:
        return "Its runs wait for a server that has it."
    return f"Its agents are told: “{desk.brief}”" if desk.brief else ""


def _about(name: str) -> list[LimitLine]:
    """Return what a run of the desk is about."""
    desk, means = DESKS.get(name), "Chosen at launch; the run can act on nothing else."
    return [LimitLine("A run is about", means, with_article(desk.subject.kind))] if desk else []


def _caps(by_currency: Mapping[str, Json]) -> list[LimitLine]:
    """Return the daily cap of each currency."""
    return [
        LimitLine(CAPS.get(key, key), "Per day (UTC) and currency.", format_money(minor, currency))
        for currency, caps in sorted(by_currency.items())
        for key, minor in caps.items()
    ]


CAPS = {
    "launcher_daily_minor": "Without approval per day, by one launcher",
    "workspace_daily_minor": "Without approval per day, in the workspace",
    "reviewer_daily_minor": "Approved by one reviewer per day",
}


def _own(name: str, held: Mapping[str, Json]) -> list[LimitLine]:
    """Return the limits that a desk declares, with defaults for those not in the document."""
    desk = DESKS.get(name)
    if desk is None:
        return [LimitLine(key, "", in_words(value)) for key, value in held.items()]
    return [
        LimitLine(
            limit.label,
            limit.help,
            in_words(held.get(limit.name, limit.default), {**limit.schema, "unit": limit.unit}),
        )
        for limit in desk.limit_fields
    ]


# The limits of a version by topic, and what changed from one version to the next.


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


# The page docs/policy-reference.md.


_BEGIN = """# Policy reference

<!-- generated by scripts/policy-docs -->

Each rule and limit, with its value in the strict policy. [policy.md](policy.md) says how to \
change them; the **Policy** page explains them in full.

## Rules

| rule | what it does |
|---|---|
"""
_OF_DESK = "Under `desks.<name>`, and for one pattern under `desks.<name>.patterns.<pattern>`."
_HEAD = "| key | name, value and meaning |\n|---|---|\n"
_WORDS = 24  # of a text
_FOR_CASES = "Compatibility with recorded cases"  # no policy in force has them


def policy_reference() -> str:
    """Return the page as Markdown, with the values of the profile strict."""
    limits = strict({name: desk.part() for name, desk in DESKS.items()})
    alike: dict[tuple[str, str], list[str]] = {}
    for name in sorted(RULES):
        alike.setdefault(words_of(name), []).append(name)
    rules = [f"| `{'`, `'.join(names)}` | {_short(text)} |" for (_, text), names in alike.items()]
    parts = [_BEGIN + "\n".join(rules) + "\n", _of_desks(limits)]
    for topic, words in WORDS.items():
        rows = [
            _row(key, f"{word.name}: {word.told(limits)}.", word.means)
            for key, word in words.items()
        ]
        if topic != _FOR_CASES:
            parts.append(f"## {topic}\n\n{_HEAD}" + "\n".join(rows) + "\n")
    return "\n".join(parts) + "\n<!-- end -->\n"


def _of_desks(limits: Limits) -> str:
    """Return the table of a desk's part, with the limits that each desk declares."""
    words, here = OF_DESK.items(), limits.of("supervisor", next(iter(DESKS)))
    rows = [_row(key, f"{word.name}: {word.told(here)}.", word.means) for key, word in words]
    for desk in DESKS.values():
        for one in desk.limit_fields:
            value = in_words(one.default, {**one.schema, "unit": one.unit})
            key = f"{desk.name}.limits.{one.name}"
            rows.append(_row(key, f"{one.label}: {value}.", one.help))
    return f"## Each desk\n\n{_OF_DESK}\n\n{_HEAD}" + "\n".join(rows) + "\n"


def _row(name: str, title: str, text: str) -> str:
    return f"| `{name}` | **{title}** {_short(text)} |"


def _short(text: str) -> str:
    """Return the first sentences, at most _WORDS words of them."""
    first, *others = re.split(r"(?<=\.) (?=[A-Z])", text)
    for other in others:
        if len(f"{first} {other}".split()) > _WORDS:
            break
        first = f"{first} {other}"
    return first
