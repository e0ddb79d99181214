"""The instructions of each role, one Markdown file a role; the first line names the role."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path


@cache
def prompt(role: str) -> str:
    """Return the system message of a role. Raises FileNotFoundError for one that has none."""
    return Path(__file__).with_name(f"{role}.md").read_text(encoding="utf-8").strip()


def prompt_version(role: str) -> str:
    """Return 12 hex digits that change with the prompt, to be kept with what it led to."""
    return sha256(prompt(role).encode()).hexdigest()[:12]
