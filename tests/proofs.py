"""Read docs/reliability.md: what holds, how far, and the tests that prove it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
TABLES = TESTS.parent / "docs" / "reliability.md"
WHOLE = {"I": 55, "F": 48, "W": 35}  # rows of each table
STANDINGS = ("proved", "partly", "open", "absent")

_ROW = re.compile(r"^\| ([IFW]\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]*::[^`]*)`")


@dataclass(frozen=True)
class Row:
    """A row: `proofs` are pytest ids without parameters, `words` its other text."""

    id: str
    holds: str
    stands: str
    proofs: tuple[str, ...]
    words: str


def rows(text: str) -> list[Row]:
    """Return every row of the tables."""
    found = []
    for number, holds, stands, last in _ROW.findall(text):
        proofs = tuple(f"tests/{quoted}" for quoted in _QUOTED.findall(last))
        words = _QUOTED.sub("", last).strip()
        found.append(Row(number, holds.strip(), stands.strip(), proofs, words))
    return found


def faults(found: Iterable[Row]) -> list[str]:
    """Return the rows' formal faults, a sentence each."""
    found = list(found)
    wanted = [f"{letter}{n}" for letter, most in WHOLE.items() for n in range(1, most + 1)]
    said = []
    if [row.id for row in found] != wanted:
        said.append("the rows are not each of I, F and W once and in order")
    for row in found:
        if row.stands not in STANDINGS:
            said.append(f"{row.id}: {row.stands!r} is no standing")
        if bool(row.proofs) != (row.stands in ("proved", "partly")):
            said.append(f"{row.id}: {row.stands}, with {len(row.proofs)} proofs")
        if row.stands != "proved" and not row.words:
            said.append(f"{row.id}: {row.stands}, and not a word why")
        said += [f"{row.id}: there is no {proof}" for proof in row.proofs if not exists(proof)]
    return said


def exists(proof: str) -> bool:
    """Tell whether an id names a test function."""
    path, _, name = proof.partition("::")
    return name in _functions(TESTS.parent / path)


@cache
def _functions(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def missing_proofs(found: Iterable[Row], passed: set[str]) -> list[str]:
    """Return the proofs that are not among the tests that passed, each with its row."""
    return [f"{row.id}: {p}" for row in found for p in row.proofs if p not in passed]
