"""README and docs/ name only files, commands and settings that exist, and all of them."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from django.core.management import get_commands

from bench import page
from tests.processes import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOP = "agents|bench|docs|opsconsole|scripts|static|templates|tests"
PATH = re.compile(rf"`((?:{TOP})/[\w./-]*\w|(?:manage|pyproject)\.\w+|\.ci/run)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
COMMAND = re.compile(r"manage\.py ([a-z]\w+)")
TARGET = re.compile(r"(?:^ {4}|`|=\S+ )make ([a-z][a-z-]+)\b", re.MULTILINE)
SETTING = re.compile(r"`(O[A-Z]+_[A-Z_]+|EMAIL_[A-Z_]+|D[A-Z]+_[A-Z_]+)`")
EXAMPLES = ROOT / "tests" / "extending"  # files of docs/extending.md that the suite puts in place


def is_there(name: str) -> bool:
    example = EXAMPLES / name.partition("/")[2]
    return (ROOT / name).exists() or (name.startswith("agents/") and example.exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_only_what_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    gone = [name for name in PATH.findall(text) if not is_there(name)]
    gone += [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    gone += [name for name in COMMAND.findall(text) if name not in get_commands()]
    gone += [name for name in TARGET.findall(text) if f"\n{name}:" not in makefile]

    assert gone == []


def test_the_index_of_decisions_is_whole() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")

    lines = [line for line in index.splitlines() if line.startswith("- ")]

    assert lines == [
        f"- [{path.name[:4]}]({path.name}) {path.read_text().splitlines()[0].partition('. ')[2]}"
        for path in sorted(folder.glob("0*.md"))
    ]


def test_every_setting_is_on_its_page_and_in_the_example() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    source = "".join(path.read_text() for path in sorted((ROOT / "opsconsole").glob("*.py")))

    read = set(re.findall(r'"((?:OPSCONSOLE|OPENAI|EMAIL|DATABASE|DEFAULT)_[A-Z_]+)"', source))
    read -= {"OPENAI_MODEL_", "OPSCONSOLE_ENV_FILE"}  # a prefix of a role's; one for tests
    listed = set(SETTING.findall(page))

    assert read - listed == set()
    assert listed - read == {"OPENAI_MODEL_WORKER"}  # one of the roles, for all of them
    assert {name for name in read if name not in example} == set()


def test_the_page_of_settings_is_what_the_settings_say() -> None:
    written = subprocess.run(
        [sys.executable, "scripts/settings-docs"], cwd=ROOT, capture_output=True, text=True
    )

    assert written.stdout == (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 70


def test_the_benchmarks_have_the_stored_figures() -> None:
    figures, text = page.read(), page.PAGE.read_text(encoding="utf-8")

    assert page.render(text, figures) == text
    assert page.CHART.read_text(encoding="utf-8") == page.chart(figures)


def test_a_class_name_exists_once() -> None:
    places = [path for room in ("agents", "opsconsole") for path in (ROOT / room).rglob("*.py")]
    names = Counter(
        name
        for path in places
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if not {"migrations", "commands"} & set(path.parts)
    )

    assert [name for name, count in names.items() if count > 1] == []


def test_templates_are_in_lines_a_person_can_review() -> None:
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 160
    ]

    assert long == []
