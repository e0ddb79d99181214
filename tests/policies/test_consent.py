"""A person's approval covers what they were shown and nothing beyond it."""

from dataclasses import replace
from typing import Any

import pytest

from agents.core.json_forms import Action
from agents.core.limits import Limits
from agents.core.reviews import Consent, Facts, Ruling, RulingKind, consent_of
from agents.policies import review
from agents.sdk.desk import DESKS
from tests.limits import SUPERVISED

LIMITS = replace(SUPERVISED, rules=("test.asks",))


@pytest.fixture(autouse=True)
def _rule_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
        value = action["args"]["value"]
        return Ruling(RulingKind.ESCALATE, "large", "It is large.", observed=value, limit=7)

    monkeypatch.setitem(DESKS["refunds"].checks, "test.asks", asks)


def decision_after(seen: Any, now: Any, answer: Any = None) -> str:
    """Return the policy's decision on a value after a person agreed to another one."""
    asked = review({"kind": "tool", "name": "t", "args": {"value": seen}}, Facts(), LIMITS)
    consent = consent_of(asked.as_json(), answer)
    action = {"kind": "tool", "name": "t", "args": {"value": now}}
    return review(action, Facts(), LIMITS, consent=consent).decision


@pytest.mark.proves("I16")
@pytest.mark.parametrize(
    ("seen", "now", "decision"),
    [
        (60, 60, "approve"),
        (60, 14, "approve"),
        (60, 61, "escalate"),
        (60, 60.5, "escalate"),
        ("FR", "FR", "approve"),
        ("FR", "DE", "escalate"),
        (["billing"], ["billing"], "approve"),
        (["billing"], ["billing", "hr"], "escalate"),
        # Of another type than shown, so nobody can say that it is not more.
        (60, "14", "escalate"),
        (60, None, "escalate"),
        (60, True, "escalate"),
        (60, float("nan"), "escalate"),
        # The rule had nothing to measure when the person agreed.
        (None, None, "approve"),
    ],
)
def test_a_yes_counts_up_to_what_was_shown(seen: Any, now: Any, decision: str) -> None:
    assert decision_after(seen, now) == decision


def test_persons_own_text_ignores_the_agents_counts() -> None:
    assert decision_after(3, 12, {"correction": "Dear Anna, …"}) == "approve"


def test_second_approval_covers_what_was_shown() -> None:
    def put(value: int, consent: Consent) -> Any:
        action = {"kind": "tool", "name": "t", "args": {"value": value}}
        return review(action, Facts(), LIMITS, consent=consent)

    first = put(60, {})
    second = put(14, consent_of(first.as_json()))

    assert put(14, consent_of(second.as_json())).decision == "approve"
    assert put(60, consent_of(second.as_json())).decision == "escalate"
