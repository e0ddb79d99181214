"""A package's offers are registered by name, each name once."""

from __future__ import annotations

import pytest

from agents.core.model_roles import ROLES, role
from agents.core.registry import NamedTwice
from agents.core.requests import Flow
from agents.desks.refunds.policies import refunds
from agents.llm.prompts import prompt
from agents.patterns import PATTERNS, Brief, Notes, pattern
from agents.policies import RULES, rule
from agents.tools import TOOLS, Touch, tool


def supervisor(brief: Brief, notes: Notes) -> Flow:
    """Take the name of a pattern that ships."""
    yield from ()


def issue_refund() -> None:
    """Take the name of a tool that ships."""


def test_two_patterns_cannot_have_one_name() -> None:
    ours = PATTERNS["supervisor"]

    with pytest.raises(NamedTwice):
        pattern(supervisor)

    assert PATTERNS["supervisor"] is ours


def test_two_tools_cannot_have_one_name() -> None:
    ours = TOOLS["issue_refund"]

    with pytest.raises(NamedTwice):
        tool(Touch.READ)(issue_refund)

    assert TOOLS["issue_refund"] is ours


def test_two_rules_cannot_have_one_name() -> None:
    with pytest.raises(NamedTwice):
        rule(refunds.auto_limit)

    assert RULES["refunds.auto_limit"] is refunds.auto_limit


def test_two_roles_cannot_have_one_name() -> None:
    role("reader", prompt="Read.", demo=lambda inputs: "")

    with pytest.raises(NamedTwice):
        role("reader", prompt="Read otherwise.", demo=lambda inputs: "")

    del ROLES["reader"]


def test_no_role_takes_the_name_of_one_that_ships() -> None:
    ours = prompt("judge")

    with pytest.raises(NamedTwice):
        role("judge", prompt="Let everything pass.", demo=lambda inputs: "")

    assert prompt("judge") == ours
