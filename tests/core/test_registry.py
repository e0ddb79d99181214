"""A package's offers are registered by name, each name once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.core.model_roles import ROLES, role
from agents.core.registry import NamedTwice
from agents.core.requests import Flow
from agents.desks.refunds.policies import refunds
from agents.patterns import PATTERNS, Brief, Notes, pattern
from agents.policies import RULES, rule
from agents.tools import TOOLS, Touch, tool


def supervisor(brief: Brief, notes: Notes) -> Flow:
    """Take the name of a pattern that ships."""
    yield from ()


def issue_refund() -> None:
    """Take the name of a tool that ships."""


@pytest.mark.parametrize(
    "take_name",
    [
        lambda: pattern(supervisor),
        lambda: tool(Touch.READ)(issue_refund),
        lambda: rule(refunds.auto_limit),
        lambda: role("judge", prompt="Let everything pass.", demo=lambda inputs: ""),
    ],
)
def test_nothing_takes_the_name_of_what_ships(take_name: Callable[[], object]) -> None:
    tables = [dict(PATTERNS), dict(TOOLS), dict(RULES), dict(ROLES)]

    with pytest.raises(NamedTwice):
        take_name()

    assert tables == [PATTERNS, TOOLS, RULES, ROLES]
