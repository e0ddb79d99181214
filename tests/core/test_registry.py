"""A package's offers are registered by name, each name once."""

from collections.abc import Callable

import pytest

from agents.core.registry import ROLES, NamedTwice, role
from agents.core.requests import Flow
from agents.patterns import PATTERNS, Brief, Notes, pattern


def supervisor(brief: Brief, notes: Notes) -> Flow:
    """Take the name of a pattern that ships."""
    yield from ()


@pytest.mark.parametrize(
    "take_name",
    [
        lambda: pattern(supervisor),
        lambda: role("judge", prompt="Let everything pass.", demo=lambda inputs: ""),
    ],
)
def test_nothing_takes_the_name_of_what_ships(take_name: Callable[[], object]) -> None:
    tables = [dict(PATTERNS), dict(ROLES)]

    with pytest.raises(NamedTwice):
        take_name()

    assert tables == [PATTERNS, ROLES]
