"""A review is repeated until nothing changes."""

from dataclasses import replace

import pytest

from agents.core.reviews import DeskFacts, Facts
from agents.desks.reference.desk import REASON, REFERENCE, CaseFacts
from agents.desks.refunds.facts import ChargeFact, RefundFacts
from agents.engine.desk.rules import NO_CASE
from agents.policies import review
from tests.facts import seen
from tests.limits import SUPERVISED

CASE = Facts(desk=DeskFacts(CaseFacts(has_context=True), NO_CASE, (), {}))
FACTS = seen(
    RefundFacts(subject=42, context_of=(42,), charge=ChargeFact(120000, 120000, "USD", 10))
)


def refund(**amount: float) -> dict[str, object]:
    return {"kind": "tool", "name": "issue_refund", "args": {"user_id": 42, **amount}}


@pytest.mark.proves("I12")
def test_a_revised_action_is_reviewed_from_the_start() -> None:
    """SUP-Q1: leaving out the reason must not bypass the person."""
    ruled = review(refund(amount_usd=1200.0), CASE, REFERENCE.of("supervisor", "reference"))

    assert ruled.decision == "escalate"
    assert not ruled.allows
    assert ruled.action["args"]["reason"] == REASON
    assert [revision.reason for revision in ruled.revisions] == ["refund_reason_required"]


def test_rule_of_recorded_cases_is_no_longer_asked() -> None:
    published_before = replace(SUPERVISED, rules=(*SUPERVISED.rules, "refunds.reason_given"))
    action = refund(amount_minor=120000)

    ruled = review(action, FACTS, published_before)

    assert (ruled.decision, ruled.action) == ("escalate", action)
