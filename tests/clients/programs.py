"""The programs of docs/agents*.md and of the client, run where the frameworks are installed."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.nursery import Program
from tests.processes import LONGEST, ROOT

PYTHON = ROOT / ".sdk-venv" / "bin" / "python"
MISSING = "the agent frameworks are not installed: make .sdk-venv/.installed"
RUNNER = ROOT / "tests" / "clients" / "runner.py"
LIBRARIES = (
    *("langchain.agents", "langchain_openai", "agents", "pydantic_ai.models.openai"),
    *("opsconsole_client.langchain", "opsconsole_client.openai_agents"),
    "opsconsole_client.pydantic_ai",
)
_EXAMPLES = ROOT / "clients" / "python" / "examples"
_BLOCK = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

needs_frameworks = pytest.mark.skipif(not PYTHON.exists(), reason=MISSING)


def programs() -> dict[str, str]:
    """Return the text of each program of the pages and of the client's examples, by its file."""
    pages = [*sorted((ROOT / "docs").glob("agents*.md")), _EXAMPLES.parent / "README.md"]
    found = dict(_BLOCK.findall("".join(page.read_text(encoding="utf-8") for page in pages)))
    return found | {file.name: file.read_text(encoding="utf-8") for file in _EXAMPLES.glob("*.py")}


@contextmanager
def running_program(
    place: Path, text: str, *arguments: str, **env: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a folder of its own, with nothing of this repository but the client."""
    file = place / "program.py"
    file.write_text(text, encoding="utf-8")
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "OPENAI_API_KEY": "any",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        **env,
    }
    pipes: Any = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    command = [str(PYTHON), str(RUNNER), str(file), *arguments]
    with Program(command, cwd=place, env=given, text=True, libraries=LIBRARIES, **pipes) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
            child.communicate(timeout=LONGEST)
