"""Let the packages find the examples as if their files were beside the others."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from agents import patterns
from agents.core.registry import ROLES, load

HERE = Path(__file__).parent
PLACES: dict[str, tuple[ModuleType, dict[str, Any]]] = {"patterns": (patterns, patterns.PATTERNS)}


@contextmanager
def load_examples() -> Iterator[None]:
    """Load the examples through the registry for the block, then unregister them."""
    tables: list[dict[str, Any]] = [*(table for _, table in PLACES.values()), ROLES]
    before = [dict(table) for table in tables]
    modules = set(sys.modules)
    for name, (package, _) in PLACES.items():
        package.__path__.append(str(HERE / name))
    try:
        for package, _ in PLACES.values():
            load(package)
        yield
    finally:
        for package, _ in PLACES.values():
            package.__path__.pop()
        for table, known in zip(tables, before, strict=True):
            table.clear()
            table.update(known)
        for name in set(sys.modules) - modules:
            if name.startswith(tuple(f"agents.{place}." for place in PLACES)):
                del sys.modules[name]
