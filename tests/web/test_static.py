"""Static files are ours, or listed with source and hash."""

import re
from hashlib import sha256
from pathlib import Path

STATIC = Path(__file__).resolve().parents[2] / "static"
TEMPLATES = STATIC.parent / "templates"
STYLES = {f"styles/{path.name}" for path in (STATIC / "styles").glob("*.css")}
OURS = {"README.md", "opsconsole.js", "approvals.js", "mark.svg", *STYLES}
ROW = re.compile(r"^\| `([^`]+)` \|.*, `([^`]+)` \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def readme_rows() -> list[tuple[str, str, str]]:
    """Return file, licence file and hash of each row of the README's table."""
    return ROW.findall((STATIC / "README.md").read_text())


def test_every_file_is_ours_or_has_its_source_licence_and_hash() -> None:
    rows = readme_rows()

    found = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    listed = {file for file, _, _ in rows} | {licence for _, licence, _ in rows}
    hashes = {file: sha256((STATIC / file).read_bytes()).hexdigest() for file, _, _ in rows}

    assert found == OURS | listed
    assert hashes == {file: digest for file, _, digest in rows}


def test_each_stylesheet_is_linked_and_asks_no_other_host() -> None:
    linked = re.findall(r"'(styles/[\w.]+)'", (TEMPLATES / "_styles.html").read_text())
    together = "".join((STATIC / name).read_text() for name in linked)

    assert sorted(linked) == sorted(STYLES)
    assert "@import" not in together
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", together)


def test_every_icon_that_a_page_names_is_drawn() -> None:
    drawn = set(re.findall(r'id="i-([\w-]+)"', (STATIC / "icons.svg").read_text()))
    pages = [page.read_text() for page in TEMPLATES.rglob("*.html")]
    named = {name for page in pages for name in re.findall(r'{% icon "([\w-]+)"', page)}

    assert named <= drawn
