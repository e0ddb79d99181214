"""The instructions of each role, one Markdown file a role; the first line names the role.

A pattern may bring roles of its own along, see `core.roles`.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

from agents.core.roles import ROLES


def prompt(role: str) -> str:
    """Return the system message of a role. Raises FileNotFoundError for one that has none."""
    if role in ROLES and not _file(role).exists():
        return f"Role: {role}\n\n{ROLES[role].prompt}"
    return _read(role)


def _file(role: str) -> Path:
    return Path(__file__).with_name(f"{role}.md")


@cache
def _read(role: str) -> str:
    return _file(role).read_text(encoding="utf-8").strip()


def prompt_version(role: str) -> str:
    """Return 12 hex digits that change with the prompt, to be kept with what it led to."""
    return sha256(prompt(role).encode()).hexdigest()[:12]
