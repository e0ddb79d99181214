"""Two desks of companies with every pattern: one moves no money, the other yen.

Their subjects are texts, and an address is among what their reports are about. Each is written as a
package outside this repository.
"""

from pathlib import Path
from string import Template
from typing import Any

OWNER = "anna@place.example"
PLACE = "Haus 3 / Nord"
PACKAGE = Path(__file__).parent / "place"
ROOMS: dict[str, Any] = {"name": "rooms", "title": "Rooms", "what": "guests", "kind": "int"}
ROOMS |= {"value": 4, "amount": "", "nobody": "stop", "done": "4", "said": f"4 served at {PLACE}."}
TEA: dict[str, Any] = {"name": "tea", "title": "Tea", "what": "price", "kind": "Amount"}
TEA |= {"value": {"amount": "1200", "currency": "JPY"}, "amount": "price", "nobody": "person"}
TEA |= {"done": "JPY 1,200", "said": f"JPY 1,200 served at {PLACE}."}


def write(folder: Path, made_of: dict[str, Any]) -> Path:
    """Write a desk's package and return its folder."""
    place = folder / str(made_of["name"])
    (place / "workflows").mkdir(parents=True)
    (place / "__init__.py").touch()
    words = {**made_of, "place": repr(PLACE), "owner": OWNER, "value": repr(made_of["value"])}
    for source, to in (("desk.py.txt", "desk.py"), ("serve.json", "workflows/serve.json")):
        text = Template((PACKAGE / source).read_text(encoding="utf-8")).substitute(words)
        (place / to).write_text(text, encoding="utf-8")
    return place
