"""The instructions of each role; the first line names the role."""

from __future__ import annotations

from pathlib import Path

from agents.core.model_roles import ROLES

_FIRST_LINE = "Role: "


def prompt(role: str) -> str:
    """Return the system message of a role. Raises KeyError for one that nobody registered."""
    return f"{_FIRST_LINE}{role}\n\n{ROLES[role].prompt}"


def read_prompt(folder: Path, role: str) -> str:
    """Return the instructions of a role, as a file of its own has them below the first line."""
    text = (folder / f"{role}.md").read_text(encoding="utf-8")
    return text.removeprefix(f"{_FIRST_LINE}{role}\n\n")
