"""A policy's section for each declared desk, in the desk's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.requests import Json
from agents.policies.rule_words import RuleLine, words_of
from agents.sdk.argument_words import in_words
from agents.sdk.desk import DESKS, Desk, tool_title
from agents.web.formats import with_article
from agents.web.policy.limits import PATTERNS, WORDS


@dataclass(frozen=True)
class DeskLimit:
    """One limit of a desk: its label, what it does and its value in its unit."""

    name: str
    means: str
    value: str


@dataclass(frozen=True)
class DeskPart:
    """One desk of a version."""

    name: str
    title: str
    brief: str  # the brief of its agents, or that the desk is not installed here
    tools: Sequence[str]
    limits: Sequence[DeskLimit]
    rules: Sequence[RuleLine]
    patterns: Mapping[str, Sequence[DeskLimit]]  # what differs in each, by its name
    missing: Sequence[str]  # rules, tools and patterns of the desk that this version does not name


def desk_parts(limits: Limits) -> list[DeskPart]:
    """Return the desks in a version, including those not installed here."""
    return [_part(name, part, limits) for name, part in sorted((limits.desks or {}).items())]


def _part(name: str, part: Mapping[str, Json], limits: Limits) -> DeskPart:
    desk, own = DESKS.get(name), part.get("patterns", {})
    more = [
        RuleLine(rule, *words_of(rule), patterns=(pattern,))
        for pattern in own
        for rule in own[pattern].get("rules", ())
    ]
    return DeskPart(
        name=name,
        title=desk.title if desk else f"{name}: not installed here",
        brief=_brief(desk),
        tools=[tool_title(tool) for tool in part["tools"]],
        limits=[*_about(desk), *desk_limits(name, part), *_caps(part)],
        rules=[*(RuleLine(rule, *words_of(rule), patterns=()) for rule in part["rules"]), *more],
        patterns={pattern: pattern_limits(name, pattern, limits) for pattern in own},
        missing=desk.missing_from(part) if desk else (),
    )


def pattern_limits(name: str, pattern: str, limits: Limits) -> list[DeskLimit]:
    """Return what differs in a pattern of a desk, except its rules, worded as for any desk."""
    here = limits.of(pattern, name)
    held = (limits.desks or {})[name]["patterns"][pattern]
    keys = ["proposable" if key == "tools" else key for key in held if key != "rules"]
    words = {key: word for topic in WORDS.values() for key, word in topic.items()}
    return [DeskLimit(words[key].name, words[key].means, words[key].told(here)) for key in keys]


def _brief(desk: Desk | None) -> str:
    if desk is None:
        return "Its runs wait for a server that has it."
    return f"Its agents are told: “{desk.brief}”" if desk.brief else ""


def _about(desk: Desk | None) -> list[DeskLimit]:
    """Return what a run of the desk is about, worded as for the first desk."""
    word = PATTERNS["about"]
    return [DeskLimit(word.name, word.means, with_article(desk.subject.kind))] if desk else []


def _caps(part: Mapping[str, Json]) -> list[DeskLimit]:
    """Return the daily cap of each currency."""
    return [
        DeskLimit(CAPS.get(key, key), "Per day (UTC) and currency.", format_money(minor, currency))
        for currency, caps in sorted(part.get("caps", {}).items())
        for key, minor in caps.items()
        if minor is not None
    ]


CAPS = {
    "launcher_daily_minor": "Without approval per day, by one launcher",
    "workspace_daily_minor": "Without approval per day, in the workspace",
    "reviewer_daily_minor": "Approved by one reviewer per day",
}


def desk_limits(name: str, part: Mapping[str, Json]) -> list[DeskLimit]:
    """Return a desk's limits in its own words, with defaults for those not in the document."""
    held, desk = part.get("limits", {}), DESKS.get(name)
    if desk is None:
        return [DeskLimit(key, "", in_words(value)) for key, value in held.items()]
    return [
        DeskLimit(
            limit.label,
            limit.help,
            in_words(held.get(limit.name, limit.default), {**limit.schema, "unit": limit.unit}),
        )
        for limit in desk.limit_fields
    ]
