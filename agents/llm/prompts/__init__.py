"""The instructions of each role, one Markdown file a role; the first line names the role.

A pattern may bring roles of its own along, see `core.roles`.
"""

from __future__ import annotations

from pathlib import Path

from agents.core.roles import ROLES

_FIRST_LINE = "Role: "


def prompt(role: str) -> str:
    """Return the system message of a role. Raises KeyError for one that nobody registered."""
    return f"{_FIRST_LINE}{role}\n\n{ROLES[role].prompt}"


def shipped(role: str) -> str:
    """Return the instructions of a role that ships, as its file has them below the first line."""
    text = Path(__file__).with_name(f"{role}.md").read_text(encoding="utf-8")
    return text.removeprefix(f"{_FIRST_LINE}{role}\n\n")
