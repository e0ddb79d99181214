"""Roles of models: those that a desk that ships brings along, and those of a pattern's own file.

A name is given once, so a pattern's role never takes the place of another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.core.registry import enter
from agents.core.requests import Json


@dataclass(frozen=True)
class ModelRole:
    """What a model of this role is told to do, and what the demo model says in its place."""

    prompt: str
    demo: Callable[[Json], str]  # inputs -> the text of an answer; inputs hold a "goal"


ROLES: dict[str, ModelRole] = {}


def role(name: str, *, prompt: str, demo: Callable[[Json], str]) -> str:
    """Register a role and return its name, for `Ask`. Raises NamedTwice."""
    enter(ROLES, name, ModelRole(prompt.strip(), demo))
    return name
