"""A package's offers are registered by name, each name once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.core.registry import ROLES, NamedTwice, role
from agents.core.requests import Flow
from agents.patterns import PATTERNS, Brief, Notes, pattern
from agents.policies import RULES, answers, rule


def supervisor(brief: Brief, notes: Notes) -> Flow:
    """Take the name of a pattern that ships."""
    yield from ()


@pytest.mark.parametrize(
    "take_name",
    [
        lambda: pattern(supervisor),
        lambda: rule(answers.matches_ledger),
        lambda: role("judge", prompt="Let everything pass.", demo=lambda inputs: ""),
    ],
)
def test_nothing_takes_the_name_of_what_ships(take_name: Callable[[], object]) -> None:
    tables = [dict(PATTERNS), dict(RULES), dict(ROLES)]

    with pytest.raises(NamedTwice):
        take_name()

    assert tables == [PATTERNS, RULES, ROLES]
