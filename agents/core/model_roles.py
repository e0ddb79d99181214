"""Roles of models, registered by shipped desks and by files of patterns.

Names are unique, so a pattern's role never replaces another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.core.registry import enter
from agents.core.requests import Json


@dataclass(frozen=True)
class ModelRole:
    """A role's prompt, and the demo model's reply in it."""

    prompt: str
    demo: Callable[[Json], str]  # inputs -> the text of an answer; inputs hold a "goal"
    brief: str = ""  # what it does, for a model that is offered tools, at the desk without a brief


ROLES: dict[str, ModelRole] = {}


def by_scenario(_: Json) -> str:
    """Say nothing: at a desk its scenarios say it."""
    return ""


def role(
    name: str, *, prompt: str, demo: Callable[[Json], str] = by_scenario, brief: str = ""
) -> str:
    """Register a role and return its name, for `Ask`. Raises NamedTwice."""
    enter(ROLES, name, ModelRole(prompt.strip(), demo, brief))
    return name
