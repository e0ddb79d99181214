"""docs/desks-reference.md names every argument that a declaration takes, and no other."""

import ast
import re
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from typing import Any

import pytest

from agents.sdk.desk import Desk
from agents.sdk.desk_patterns import Report
from agents.sdk.desk_tools import DeskTool, Subject
from tests.processes import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_DESK = (Desk.tool, Desk.rule, Desk.specialist, Desk.source, Desk.scenario)
DECLARATIONS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (Desk, Subject, Report, *OF_DESK)
}
SET_BY_DESK = {"name", "function", "arguments", "numbers", "is_plain"}
OF_SHIPPED_DESKS = {"request", "unrecorded", "clean", "is_replayed"}


def documented() -> dict[str, set[str]]:
    """Return the arguments of each declaration on the page."""
    page = (ROOT / "docs" / "desks-reference.md").read_text(encoding="utf-8")
    found = {}
    for block in BLOCK.findall(page):
        for node in ast.parse(block).body:
            if isinstance(node, ast.FunctionDef) and node.name in DECLARATIONS:
                own = node.args
                several = [own.vararg] if own.vararg else []
                found[node.name] = {one.arg for one in (*own.args, *own.kwonlyargs, *several)}
    return found


def taken(name: str) -> set[str]:
    names = {*signature(DECLARATIONS[name]).parameters} - {"self"}
    if name == "tool":
        names |= {one.name for one in fields(DeskTool)} - SET_BY_DESK
    return names - OF_SHIPPED_DESKS - {"more"}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_reference_names_the_arguments_of_a_declaration(name: str) -> None:
    assert documented()[name] == taken(name)
