"""What every desk uses names the business of none: the lines that still do only get fewer."""

from __future__ import annotations

import re

from tests.processes import ROOT

FORMER = ROOT / "agents/core/former.py"  # what was stored and sealed before there were others
ROOMS = (
    *("audit", "core", "engine", "models", "operations", "patterns", "record", "sdk"),
    "systems.py",
)
WORD = re.compile(r"refund|charge|customer|\"user_id\"|\busd\b", re.IGNORECASE)
# How many lines of a file still name it. Numbers are only ever made smaller.
LEFT = {
    "sdk/asked.py": 1,
}


def lines_that_name_it() -> dict[str, int]:
    """Return how many lines of each file name refunds, customers or their currency."""
    found = {}
    for room in ROOMS:
        place = ROOT / "agents" / room
        paths = place.rglob("*.py") if place.is_dir() else [place]
        for path in sorted(set(paths) - {FORMER}):
            lines = path.read_text(encoding="utf-8").splitlines()
            if count := sum(bool(WORD.search(line)) for line in lines):
                found[path.relative_to(ROOT / "agents").as_posix()] = count
    return found


def test_a_room_of_every_desk_names_no_more_of_refunds_than_before() -> None:
    found = lines_that_name_it()

    assert {name: count for name, count in found.items() if count > LEFT.get(name, 0)} == {}
    assert [name for name in LEFT if name not in found] == []  # which names it no more
