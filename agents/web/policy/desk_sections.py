"""A policy's section for each desk, in the desk's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.requests import Json
from agents.policies.rule_words import RuleLine, rule_lines
from agents.sdk.argument_words import in_words
from agents.sdk.desk import DESKS, Desk
from agents.shell.formats import with_article
from agents.web.policy.limits import OF_DESK, WORDS


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
    limits: Sequence[DeskLimit]
    rules: Sequence[RuleLine]
    patterns: Mapping[str, Sequence[DeskLimit]]  # what differs in each, by its name
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


def desk_limits(name: str, limits: Limits, pattern: str = "") -> list[DeskLimit]:
    """Return a desk's tools and limits in its own words; of a pattern, those that differ there."""
    here, whole = limits.of(pattern, name), limits.desks[name]
    held = whole["patterns"][pattern] if pattern else whole
    lines = [] if pattern and "limits" not in held else _own(name, held.get("limits", {}))
    lines += _caps(held.get("caps", {}))
    words = dict(OF_DESK)
    if pattern:
        words |= {key: word for topic in WORDS.values() for key, word in topic.items()}
    shown = [words[key] for key in held if key in words]
    return lines + [DeskLimit(word.name, word.means, word.told(here)) for word in shown]


def _brief(desk: Desk | None) -> str:
    if desk is None:
        return "Its runs wait for a server that has it."
    return f"Its agents are told: “{desk.brief}”" if desk.brief else ""


def _about(name: str) -> list[DeskLimit]:
    """Return what a run of the desk is about."""
    desk, means = DESKS.get(name), "Chosen at launch; the run can act on nothing else."
    return [DeskLimit("A run is about", means, with_article(desk.subject.kind))] if desk else []


def _caps(by_currency: Mapping[str, Json]) -> list[DeskLimit]:
    """Return the daily cap of each currency."""
    return [
        DeskLimit(CAPS.get(key, key), "Per day (UTC) and currency.", format_money(minor, currency))
        for currency, caps in sorted(by_currency.items())
        for key, minor in caps.items()
    ]


CAPS = {
    "launcher_daily_minor": "Without approval per day, by one launcher",
    "workspace_daily_minor": "Without approval per day, in the workspace",
    "reviewer_daily_minor": "Approved by one reviewer per day",
}


def _own(name: str, held: Mapping[str, Json]) -> list[DeskLimit]:
    """Return the limits that a desk declares, with defaults for those not in the document."""
    desk = DESKS.get(name)
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
