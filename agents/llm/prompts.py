"""The instructions of each role; the first line names the role."""

from __future__ import annotations

from pathlib import Path

from agents.core.model_roles import ROLES

_FIRST_LINE = "Role: "


def prompt(role: str, *, at_desk: bool = False) -> str:
    """Return the system message of a role. Raises KeyError for an unregistered one.

    At a declared desk it is the console's, as the desk's brief and its tools come with the inputs.
    """
    own = AT_DESK.get(role) if at_desk else None  # a pattern of others has roles of its own
    return f"{_FIRST_LINE}{role}\n\n{own or ROLES[role].prompt}"


def read_prompt(folder: Path, role: str) -> str:
    """Return the instructions in a role's file, without its first line."""
    text = (folder / f"{role}.md").read_text(encoding="utf-8")
    return text.removeprefix(f"{_FIRST_LINE}{role}\n\n")


_FOLDER = Path(__file__).parent / "roles"
AT_DESK = {path.stem: read_prompt(_FOLDER, path.stem).strip() for path in _FOLDER.glob("*.md")}
