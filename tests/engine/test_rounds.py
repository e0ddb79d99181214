"""A review is repeated until nothing changes."""

from dataclasses import replace

import pytest

from agents.desks.refunds.facts import ChargeFact, RefundFacts
from agents.desks.refunds.limits import REFERENCE
from agents.desks.refunds.rules import DEFAULT_REASON
from agents.policies import review
from tests.limits import SUPERVISED

FACTS = RefundFacts(subject=42, context_of=(42,), charge=ChargeFact(120000, 120000, "USD", 10))


@pytest.mark.proves("I12")
def test_a_revised_action_is_reviewed_from_the_start() -> None:
    """SUP-Q1: leaving out the reason must not bypass the person."""
    action = {
        "kind": "tool",
        "name": "issue_refund",
        "args": {"user_id": 42, "amount_minor": 120000},
    }

    ruled = review(action, FACTS, REFERENCE.of("supervisor", "refunds"))
    published_before = replace(SUPERVISED, rules=(*SUPERVISED.rules, "refunds.reason_given"))
    strict = review(action, FACTS, published_before)

    assert ruled.decision == "escalate"
    assert not ruled.allows
    assert ruled.action["args"]["reason"] == DEFAULT_REASON
    assert [revision.reason for revision in ruled.revisions] == ["refund_reason_required"]
    assert (strict.decision, strict.action) == ("escalate", action)
