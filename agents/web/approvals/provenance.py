"""Where each argument of an action came from: who said it first that can be shown to have said it.

A value that nobody else can be shown to have said was chosen by the agent, and is marked so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from agents.core.money import BadAmount, format_money, minor_of_text
from agents.core.requests import Json
from agents.desk import billing
from agents.models import Escalation

ORIGINS = {
    "record": ("db", "system of record"),
    "customer": ("chat", "said in the goal"),
    "policy": ("revise", "changed by the policy"),
    "human": ("hand", "set by a person"),
    "agent": ("bot", "chosen by the agent"),
}
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d{1,2})?")


@dataclass(frozen=True)
class Source:
    """An argument, as people read it, and its origin: a key of ORIGINS."""

    name: str
    value: str
    origin: str

    @property
    def icon(self) -> str:
        return ORIGINS[self.origin][0]

    @property
    def word(self) -> str:
        return ORIGINS[self.origin][1]


def sources(escalation: Escalation, charge: billing.ChargeFacts | None) -> list[Source]:
    """Return the arguments of a held action, each with where it came from."""
    args: Mapping[str, Json] = escalation.action.get("args") or {}
    revised = {
        name
        for ruling in escalation.review.get("revisions", [])
        for name, value in ((ruling.get("action") or {}).get("args") or {}).items()
        if args.get(name) == value
    }
    found = []
    for name, value in args.items():
        origin = "policy" if name in revised else _origin(name, value, escalation, charge)
        told = format_money(value) if name.endswith("_minor") else str(value)
        found.append(Source(name.removesuffix("_minor").replace("_", " "), told, origin))
    if escalation.granted_minor not in (None, args.get("amount_minor")):
        found.append(Source("amount granted", format_money(escalation.granted_minor or 0), "human"))
    return found


def _origin(
    name: str, value: Json, escalation: Escalation, charge: billing.ChargeFacts | None
) -> str:
    goal = escalation.run.goal
    if name == "user_id" and value == escalation.run.subject:
        return "record"  # bound when the run was launched
    if name == "amount_minor":
        if charge and value == charge.amount_minor:
            return "record"
        return "customer" if value in _amounts(goal) else "agent"
    if isinstance(value, str) and value and value.casefold() in goal.casefold():
        return "customer"
    return "agent"


def _amounts(goal: str) -> set[int]:
    """Return the numbers in a text that can be amounts, in minor units."""
    found = set()
    for text in _NUMBER.findall(goal)[:50]:
        with suppress(BadAmount):
            found.add(minor_of_text(text))
    return found
