"""The limits of a policy in words, for people who do not read its document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.redact import CARDS, EMAILS, IBANS
from agents.web.formats import cost, duration, thousands

Told: TypeAlias = Callable[[Limits], str]
ANY_TOOL = ""  # stands for a tool that the document does not name
MASKED = {CARDS: "card numbers", IBANS: "IBANs", EMAILS: "addresses of mail"}


@dataclass(frozen=True)
class Words:
    """What a limit is called, and how its value is said."""

    name: str
    told: Told


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _counts(counts: Mapping[str, int] | None, *, others: int) -> str:
    """Say how often each tool may be called: get_refund_context 3, any other 2."""
    named = [f"{tool} {count}" for tool, count in sorted((counts or {}).items())]
    return ", ".join([*named, f"any other {others}" if named else f"any {others}"])


def _told_limit(limits: Limits) -> str:
    told = limits.told_limit_minor
    return "the limit itself" if told is None else format_money(told)


def _cap(minor: int | None) -> str:
    return "no cap" if minor is None else format_money(minor)


def _most(count: int | None) -> str:
    return "no cap" if count is None else thousands(count)


# By topic, and each limit by its name in the document.
WORDS: dict[str, dict[str, Words]] = {
    "Money": {
        "auto_limit_minor": Words(
            "Above it a person decides", lambda p: format_money(p.auto_limit_minor)
        ),
        "told_limit_minor": Words("What the agent is told of it", _told_limit),
        "run_limit_minor": Words(
            "Refunded in one run at most", lambda p: format_money(p.run_limit_minor)
        ),
        "window_days": Words("A charge is refunded for", lambda p: _counted(p.window_days, "day")),
        "rolling_days": Words(
            "Refunds without a person, and of one reviewer, add up over",
            lambda p: _counted(p.rolling_days, "day"),
        ),
        "launcher_daily_minor": Words(
            "Without a person in a day, by one launcher", lambda p: _cap(p.launcher_daily_minor)
        ),
        "workspace_daily_minor": Words(
            "Without a person in a day, altogether", lambda p: _cap(p.workspace_daily_minor)
        ),
        "reviewer_daily_minor": Words(
            "Granted by one person in a day", lambda p: _cap(p.reviewer_daily_minor)
        ),
    },
    "People": {
        "inbox": Words("There are people to ask", lambda p: _yes(p.inbox)),
        "escalation_seconds": Words(
            "A request waits for an answer", lambda p: duration(p.escalation_seconds)
        ),
        "four_eyes": Words("Never decided by who launched it", lambda p: _yes(p.four_eyes)),
        "open_per_launcher": Words(
            "Requests that wait, of one launcher", lambda p: _most(p.open_per_launcher)
        ),
        "open_per_customer": Words(
            "Requests that wait, about one customer", lambda p: _most(p.open_per_customer)
        ),
        "hand_over": Words("A case that nobody takes goes to people", lambda p: _yes(p.hand_over)),
    },
    "Rules and tools": {
        "profile": Words("Profile", lambda p: p.profile),
        "rules": Words("Rules that are asked", lambda p: _names(p.rules)),
        "proposable": Words("Tools a model may propose", lambda p: _names(p.proposable)),
        "executable": Words("Tools that may run", lambda p: _names(p.executable)),
        "tool_calls": Words(
            "Calls of a tool in a run",
            lambda p: _counts(p.tool_calls, others=p.calls_of(ANY_TOOL)),
        ),
        "tool_repeats": Words(
            "The same call in a run",
            lambda p: _counts(p.tool_repeats, others=p.repeats_of(ANY_TOOL)),
        ),
        "call_seconds": Words("One call lasts at most", lambda p: duration(p.call_seconds)),
        "errors_fail": Words("A tool's error shows as a failure", lambda p: _yes(p.errors_fail)),
    },
    "Budgets of a run": {
        "max_steps": Words("Steps", lambda p: thousands(p.max_steps)),
        "max_blocks": Words("Blocks that the agent may answer", lambda p: thousands(p.max_blocks)),
        "max_tool_calls": Words("Calls of tools", lambda p: thousands(p.max_tool_calls)),
        "max_seconds": Words("Time at work", lambda p: duration(p.max_seconds)),
        "max_tokens": Words("Tokens", lambda p: thousands(p.max_tokens)),
        "max_cost_micro_usd": Words("Cost of models", lambda p: cost(p.max_cost_micro_usd)),
        "outlasts_outages": Words(
            "Waits for a model's server that fails", lambda p: _yes(p.outlasts_outages)
        ),
        "tells_customer": Words(
            "After a refund, the mail is sent although time is up", lambda p: _yes(p.tells_customer)
        ),
        "late": Words("Heard although time is up", lambda p: _names(p.late)),
        "late_calls": Words("A call under way is finished late", lambda p: _yes(p.late_calls)),
        "finalize": Words("A closing text after the last step", lambda p: _yes(p.finalize)),
    },
    "Reports, cases and workflows": {
        "about": Words("A run is about", lambda p: f"a {p.about}"),
        "call_attempts": Words("Attempts of a task", lambda p: thousands(p.call_attempts)),
        "at_once": Words("Tasks side by side", lambda p: thousands(p.at_once)),
        "required": Words("Workers that every plan uses", lambda p: _names(p.required)),
        "critical": Words("No report without", lambda p: _names(p.critical)),
        "forget_refusals": Words(
            "Only the last refusal is kept in mind", lambda p: _yes(p.forget_refusals)
        ),
        "null_is_none": Words("An empty incident counts as none", lambda p: _yes(p.null_is_none)),
        "loose_topics": Words("A keyword within a word counts", lambda p: _yes(p.loose_topics)),
        "judge": Words("A model may judge a step", lambda p: _yes(p.judge)),
        "max_reorients": Words(
            "A step is corrected at most", lambda p: _counted(p.max_reorients, "time")
        ),
        "self_reported": Words("A drift is one only if admitted", lambda p: _yes(p.self_reported)),
        "marker_word": Words("A word ends a convergence", lambda p: _yes(p.marker_word)),
    },
    "Personal data": {
        "redaction": Words("Masked", lambda p: _names(MASKED[kind] for kind in p.redaction)),
    },
}


@dataclass(frozen=True)
class Line:
    """One limit for each pattern; a single value where all have the same."""

    name: str
    values: tuple[str, ...]


def lines(by_pattern: Iterable[Limits]) -> list[tuple[str, list[Line]]]:
    """Return the limits of some patterns, in their order, by topic."""
    parts = list(by_pattern)
    return [
        (
            topic,
            [Line(word.name, _one_if_same(word.told(p) for p in parts)) for word in words.values()],
        )
        for topic, words in WORDS.items()
    ]


def _one_if_same(values: Iterable[str]) -> tuple[str, ...]:
    each = tuple(values)
    return each[:1] if len(set(each)) == 1 else each


@dataclass(frozen=True)
class Difference:
    """A limit that changed from one version to the next."""

    name: str
    where: str  # the patterns it changed for; "" where that is all of them
    before: str
    after: str


def differences(old: Limits, new: Limits, *, patterns: Iterable[str]) -> list[Difference]:
    """Return what changed between two versions, in the order of the page."""
    names = list(patterns)
    pairs = {name: (old.of(name), new.of(name)) for name in names}
    found = []
    for word in (word for words in WORDS.values() for word in words.values()):
        changed: dict[tuple[str, str], list[str]] = {}
        for name, (before, after) in pairs.items():
            said = word.told(before), word.told(after)
            if said[0] != said[1]:
                changed.setdefault(said, []).append(name)
        for (was, now), where in changed.items():
            told = "" if where == names else ", ".join(where)
            found.append(Difference(word.name, told, *_apart(was, now)))
    return found


def _apart(was: str, now: str) -> tuple[str, str]:
    """Return two values, and of two lists only what one has and the other has not."""
    before, after = was.split(", "), now.split(", ")
    gone = [item for item in before if item not in after]
    new = [item for item in after if item not in before]
    if len(before) == len(after) == 1 or not gone + new:  # no lists, or in another order
        return was, now
    return ", ".join(gone) or "not there", ", ".join(new) or "gone"
