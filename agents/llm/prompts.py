"""The instructions of each role; the first line names the role."""

from pathlib import Path

from agents.core.registry import ROLES, role
from agents.core.requests import Json

_FIRST_LINE = "Role: "


def prompt(role: str, *, at_desk: bool = False) -> str:
    """Return the system message of a role. Raises KeyError for an unregistered one.

    At a declared desk it is the console's, as the desk's brief and its tools come with the inputs.
    """
    own = AT_DESK.get(role) if at_desk else None  # a pattern of others has roles of its own
    return f"{_FIRST_LINE}{role}\n\n{own or ROLES[role].prompt}"


def prompt_with_tools(role: str, desk: Json) -> str:
    """Return the system message of a model that is offered tools: how to work, and for whom.

    The desk's brief comes last and stays the same through a day.
    """
    about = "".join(f" You act on the {kind} {key}." for kind, key in desk.get("about", {}).items())
    today = f" Today is {desk['today']}." if "today" in desk else ""
    brief = desk.get("brief") or ROLES[role].brief
    return f"{_FIRST_LINE}{role}\n\n{_WITH_TOOLS}\n\n{brief}{about}{today}"


def read_prompt(folder: Path, role: str) -> str:
    """Return the instructions in a role's file, without its first line."""
    text = (folder / f"{role}.md").read_text(encoding="utf-8")
    return text.removeprefix(f"{_FIRST_LINE}{role}\n\n")


_FOLDER = Path(__file__).parent / "roles"
# A run keeps the form of its first question, so a file is replaced by one of the next number.
TOOL_FORM = "tools.1"
_WITH_TOOLS = (_FOLDER / f"{TOOL_FORM}.md").read_text(encoding="utf-8").strip()
AT_DESK = {
    path.stem: read_prompt(_FOLDER, path.stem).strip()
    for path in _FOLDER.glob("*.md")
    if path.stem != TOOL_FORM
}
for _name, _text in AT_DESK.items():
    role(_name, prompt=_text)
