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
    # inputs -> the text of an answer; inputs hold a "goal". A desk's roles speak by its scenarios.
    demo: Callable[[Json], str] = lambda _: ""
    brief: str = ""  # what it does, for a model that is offered tools, at the desk without a brief


ROLES: dict[str, ModelRole] = {}


def role(name: str, *, prompt: str, brief: str = "", **more: Callable[[Json], str]) -> str:
    """Register a role and return its name, for `Ask`. Raises NamedTwice."""
    enter(ROLES, name, ModelRole(prompt.strip(), brief=brief, **more))
    return name
