"""What every desk uses names the business of none."""

from __future__ import annotations

import re

from tests.processes import ROOT

FORMER = ROOT / "agents/core/former.py"  # what was stored and sealed before there were others
ROOMS = (
    *("audit", "core", "db", "engine", "llm", "management", "models", "operations", "patterns"),
    *("policies", "record"),
    *("sdk", "systems.py", "tools", "web", "../templates"),
)
WORD = re.compile(r"refund|charge|customer|\"user_id\"|\busd\b", re.IGNORECASE)
LINES = {
    "agents/core/money.py": 1,  # what models cost
    "agents/sdk/asked.py": 1,  # signs of currencies
    "agents/management/commands/run_pattern.py": 3,  # it replays recorded cases
}


def lines_that_name_it() -> dict[str, int]:
    """Return how many lines of each file name refunds, customers or their currency."""
    found = {}
    for room in ROOMS:
        place = ROOT / "agents" / room
        paths = [place, *place.rglob("*.py"), *place.rglob("*.html")]
        for path in sorted(path for path in paths if path.is_file() and path != FORMER):
            lines = path.read_text(encoding="utf-8").splitlines()
            if count := sum(bool(WORD.search(line)) for line in lines):
                found[path.resolve().relative_to(ROOT).as_posix()] = count
    return found


def test_what_every_desk_uses_names_the_business_of_none() -> None:
    assert lines_that_name_it() == LINES
