"""What is served besides the pages: ours, or written down with its source and its hash."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

STATIC = Path(__file__).resolve().parents[2] / "static"
OURS = {"README.md", "opsconsole.css", "opsconsole.js", "mark.svg"}
ROW = re.compile(r"^\| `([^`]+)` \|.*, `([^`]+)` \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def written_down() -> list[tuple[str, str, str]]:
    """Return file, licence file and hash of each row of the README's table."""
    return ROW.findall((STATIC / "README.md").read_text())


def test_every_file_is_ours_or_has_its_source_licence_and_hash() -> None:
    rows = written_down()

    found = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    listed = {file for file, _, _ in rows} | {licence for _, licence, _ in rows}
    hashes = {file: sha256((STATIC / file).read_bytes()).hexdigest() for file, _, _ in rows}

    assert found == OURS | listed
    assert hashes == {file: digest for file, _, digest in rows}


def test_the_stylesheet_asks_no_other_host() -> None:
    style = (STATIC / "opsconsole.css").read_text()

    assert "@import" not in style
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", style)


def test_every_icon_that_a_page_names_is_drawn() -> None:
    drawn = set(re.findall(r'id="i-([\w-]+)"', (STATIC / "icons.svg").read_text()))
    templates = (STATIC.parent / "templates").rglob("*.html")
    named = {
        name for page in templates for name in re.findall(r'{% icon "([\w-]+)"', page.read_text())
    }

    assert named <= drawn
