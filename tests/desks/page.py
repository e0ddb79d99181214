"""The desk of docs/desks.md: its files, and the commands between them."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.processes import ROOT

PAGE = ROOT / "docs" / "desks.md"
_BLOCK = re.compile(r"^```(?:(sh)|(?:python|json) (\S+))\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> Iterator[tuple[str, str]]:
    """Yield each file with the text to append, and ("", commands), in order."""
    for shell, path, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        yield ("", _here(text)) if shell else (path, text)


def _here(commands: str) -> str:
    """Return commands with this checkout's path in place of the page's."""
    there = "/srv/opsconsole"
    return commands.replace(f"{there}/.venv/bin/python", sys.executable).replace(there, str(ROOT))


def package() -> str:
    """Return the pyproject.toml that makes a wheel of the desk."""
    [text] = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(text)


def files() -> dict[str, str]:
    """Return the text of every file of the desk, its parts two empty lines apart."""
    parts: dict[str, list[str]] = {}
    for path, text in blocks():
        if path:
            parts.setdefault(path, []).append(text)
    return {path: "\n\n".join(texts) for path, texts in parts.items()}


def write(place: Path) -> None:
    """Write the desk's files without running the commands."""
    for path, text in files().items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, encoding="utf-8")
    (place / "acme_access" / "__init__.py").touch()
