"""docs/extending.md shows the files that these tests run, word for word."""

import re

import pytest

from tests.extending.dropped import HERE, PLACES
from tests.processes import ROOT

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^`agents/(\S+\.py)`\n\n```python\n(.*?)^```$", PAGE, re.M | re.S))
FILES = sorted(
    str(file.relative_to(HERE))
    for place in PLACES
    for file in (HERE / place).glob("*.py")
    if file.name != "__init__.py"
)


@pytest.mark.parametrize("name", FILES)
def test_the_page_shows_the_file_as_it_is(name: str) -> None:
    assert BLOCKS[name] == (HERE / name).read_text(encoding="utf-8")


def test_the_page_shows_nothing_that_is_not_run() -> None:
    assert sorted(BLOCKS) == FILES
    assert PAGE.count("```python") == len(FILES)


def test_every_command_and_file_that_the_page_names_is_there() -> None:
    paths = re.findall(r"`((?:agents|tests|docs)/[\w/.]+)`", PAGE)
    links = re.findall(r"\]\(([\w/.-]+\.md)\)", PAGE)
    ours = {f"agents/{name}" for name in FILES}

    gone = [path for path in paths if path not in ours and not (ROOT / path).exists()]

    assert gone == []
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
