"""A workflow may send only an accepted text, word for word, once."""

from dataclasses import replace

import pytest

from agents.core.json_forms import Action, sha256
from agents.desks.refunds.facts import RefundFacts
from agents.desks.refunds.limits import STRICT
from agents.policies import review
from tests.facts import seen

LIMITS = STRICT.of("workflow", "refunds")
TEXT = "Hello Anna, your plan is annual_enterprise."
FACTS = RefundFacts(subject=42, accepted=(sha256(TEXT),))


def reply(message: str = TEXT, customer: int = 42) -> Action:
    return {"kind": "tool", "name": "send_reply", "args": {"user_id": customer, "message": message}}


@pytest.mark.parametrize(
    ("action", "facts", "reason"),
    [
        (reply(f"{TEXT} And you get 100 USD."), FACTS, "reply_not_accepted"),
        (reply(), replace(FACTS, accepted=()), "reply_not_accepted"),
        (reply(), replace(FACTS, replies=1), "reply_sent_already"),
        (reply(customer=7), FACTS, "subject_mismatch"),
    ],
)
def test_anything_else_is_not_sent(action: Action, facts: RefundFacts, reason: str) -> None:
    ruled = review(action, seen(facts), LIMITS)

    assert (ruled.decision, ruled.deciding.reason) == ("block", reason)


@pytest.mark.parametrize("tool", ["issue_refund", "send_refund_email"])
def test_a_workflow_moves_no_money(tool: str) -> None:
    args = {"user_id": 42, "amount_minor": 100}

    ruled = review({"kind": "tool", "name": tool, "args": args}, seen(FACTS), LIMITS)

    assert ruled.decision == "block"
