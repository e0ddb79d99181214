"""Tables of words and facts, kept in files that people who read no code can review."""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

_T = TypeVar("_T")


def read_table(shape: type[_T], beside: str, name: str) -> _T:
    """Return the table of a file beside a module. A row may name another that it is like.

    An unknown, missing or misshapen value is an error at the start of the program.
    """
    text = Path(beside).with_name(name).read_text(encoding="utf-8")
    return TypeAdapter(shape).validate_python(_filled(tomllib.loads(text)), extra="forbid")


def _filled(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table whose rows have what they share with the one above that they are like."""
    rows = dict[str, Any]()
    for name, row in table.items():
        rows[name] = _filled(row) if isinstance(row, dict) else row
        if isinstance(row, dict) and "like" in row:
            rows[name] = rows[row["like"]] | rows[name]
            del rows[name]["like"]
    return rows
