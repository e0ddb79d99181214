"""scripts/check-docs finds planted faults, and lets a good page pass."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

GOOD = """# Operate

Restart the workers with `make demo` or `manage.py kill`. Set `OPSCONSOLE_PORT`.
[Above](#operate), [the readme](../README.md), `agents/urls.py`, `/runs/`, `launch_run`.

| setting | meaning |
|---|---|
| `OPSCONSOLE_PORT` | port of the pages |
"""
TREE = {
    "README.md": "# Readme\n",
    "Makefile": "demo:\n\techo\n",
    "opsconsole/settings.py": 'PORT = "OPSCONSOLE_PORT"\n',
    "agents/urls.py": 'path("runs/", launch_run)\n',
    "agents/management/commands/kill.py": "",
}
LONG = " ".join(["word"] * 33)
PLANTED = {
    "budget": f"{LONG[:100]}.\n\n" * 20,
    "sentence": f"{LONG}.",
    "paragraph": "Four words are here. " * 30,
    "item": "- " + "Four words are here. " * 12,
    "cell": f"| {'long words ' * 16} |",
    "heading": f"## {'long words ' * 6}",
    "caveats": "But not here.\n\n" * 13,
    "wording": "What was refused is recorded.",
    "history": "It is no longer shown.",
    "link": "[Gone](gone.md) and [a heading](../README.md#gone).",
    "command": "Run `manage.py vanish` now.",
    "target": "Run `make vanish` now.",
    "setting": "Set `OPSCONSOLE_GONE`.",
    "test": "See `project/test_gone.py::test_gone`.",
    "path": "See `agents/gone.py`.",
    "address": "Open `/gone/`.",
    "name": "Call `vanish_now`.",
}


def check(root: Path, page: str) -> tuple[int, list[str]]:
    """Check a tree with this page. Return the exit code, and the kinds of faults."""
    for name, text in {**TREE, "docs/page.md": page}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "check-docs"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, [line.split(": ")[1] for line in done.stdout.splitlines()]


def test_a_good_page_has_no_fault(tmp_path: Path) -> None:
    assert check(tmp_path, GOOD) == (0, [])


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_found(tmp_path: Path, kind: str) -> None:
    code, kinds = check(tmp_path, f"{GOOD}\n{PLANTED[kind]}\n")

    assert (code, set(kinds)) == (1, {kind})


@pytest.mark.parametrize(
    ("kind", "mark"), [("sentence", "generated"), ("wording", "quoted"), ("name", "quoted")]
)
def test_marked_parts_are_exempt(tmp_path: Path, kind: str, mark: str) -> None:
    part = f"<!-- {mark} -->\n\n{PLANTED[kind]}\n\n<!-- end -->\n"

    assert check(tmp_path, f"{GOOD}\n{part}") == (0, [])


ANEW = "wording: “made anew”: 'again', 'regenerated', 'rebuilt'"
LONG_NAME = f"test_{'a' * 56}"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "templates/page.html",
            "<p>{% if a %}It is\n<b>made</b> anew.{% endif %}</p>",
            f"1: {ANEW}",
        ),
        ("agents/page.py", 'raise Refused(\n    f"It is made anew {once}"\n)\n', f"2: {ANEW}"),
        ("agents/page.py", '"""A row.\n\nIt is\nmade anew."""\n', f"3: {ANEW}"),
        ("agents/page.py", "x = 1\n# It is made\n# anew.\n", f"2: {ANEW}"),
        ("tests/test_a.py", f"def {LONG_NAME}(): ...", f"1: test: {LONG_NAME} is too long"),
    ],
)
def test_idioms_on_screens_are_found(tmp_path: Path, name: str, text: str, told: str) -> None:
    check(tmp_path, GOOD)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    command = [sys.executable, str(ROOT / "scripts" / "check-docs"), str(tmp_path), "--screens"]

    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (1, f"{name}:{told}\n")
