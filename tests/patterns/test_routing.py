"""Routing over scripted replies: the router's inputs, and where a run ends."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agents.core.requests import Reply
from agents.desks.refunds.limits import STRICT
from agents.patterns import Brief, result
from agents.patterns.routing import reason_of
from tests.patterns import deciding

LIMITS = replace(STRICT.of("routing", "refunds"), max_blocks=0)  # a block ends the run
ALLOWED = {"allows": True, "deciding": {"reason": "read_only_delegation"}, "key": "1/review"}
REFUSES = {"status": "needs_reroute", "reason": "not_mine", "domain": "x"}
FOUND = {"status": "done", "domain": "billing", "result": {"refund_amount_minor": 4900}}


def attempt(number: int, target: str, seen: Any, *, ticket: str = "t") -> dict[str, Reply]:
    """Return the replies of one attempt that reaches a specialist."""
    route = {"kind": "route", "target": f"{target}_specialist", "args": {"ticket": ticket}}
    action = {"kind": "tool", "name": route["target"], "args": route["args"]}
    return {
        f"{number}/route": Reply({"text": json.dumps(route)}),
        f"{number}/review": Reply({**ALLOWED, "action": action}),
        f"{number}/delegate": seen if isinstance(seen, Reply) else Reply(seen),
    }


def result_of(replies: dict[str, Reply], limits: Any = LIMITS) -> dict[str, Any]:
    return result("routing", Brief("refund", limits, {}), replies)


def refused_by_all() -> dict[str, Reply]:
    targets = enumerate(("billing", "technical", "sales"), 1)
    return {k: v for n, target in targets for k, v in attempt(n, target, REFUSES).items()}


def decision_replies(decision: str, comment: str) -> dict[str, Reply]:
    return {"hand_over": Reply({"decision": decision, "by": "rita", "comment": comment})}


@pytest.mark.parametrize(
    ("decision", "taken"), [("approved", True), ("rejected", False), ("expired", False)]
)
def test_a_hand_over_ends_with_who_took_it(decision: str, taken: bool) -> None:
    found = result_of({**refused_by_all(), **decision_replies(decision, "call them")})

    assert (found["stop_reason"], found["phase"]) == ("max_route_attempts", "route")
    assert found["handed_over"] == {"taken": taken, "by": "rita", "comment": "call them"}


def test_a_delegation_that_the_policy_blocks_reaches_nobody() -> None:
    replies = attempt(1, "billing", FOUND)
    blocked = {"allows": False, "deciding": deciding("rule_failed"), "action": None}

    found = result_of({**replies, "1/review": Reply(blocked)})

    assert (found["stop_reason"], found["phase"]) == ("supervisor_block:rule_failed", "delegate")
    assert (found["trace"][0]["ok"], found["history"]) == (False, [])


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ("max_tool_calls", "max_delegations"),
        ("tool_denied:x", "route_denied:x"),
        ("tool_missing:x", "route_missing:x"),
        ("tool_bad_args:x", "route_bad_args:x"),
        ("tool_error:x", "route_error:x"),
        ("loop_detected:per_tool_limit", "loop_detected"),
        ("max_seconds", "max_seconds"),
        ("killed", "killed"),
    ],
)
def test_gateway_refusal_has_routings_words(refusal: str, reason: str) -> None:
    assert reason_of(refusal) == reason


@pytest.mark.parametrize(
    "seen",
    [{"status": "done"}, {"status": "done", "result": {"a": 1}, "error": "x"}, {"status": "ok"}],
)
def test_a_reply_out_of_contract_is_never_answered_from(seen: dict[str, Any]) -> None:
    found = result_of(attempt(1, "billing", seen))

    assert (found["stop_reason"], found["bad_observation"]) == ("route_bad_observation", seen)
    assert found["received_status"] == seen["status"]


def test_a_budget_that_runs_out_belongs_to_no_phase() -> None:
    replies = {**attempt(1, "billing", FOUND), "finalize": Reply(failed="max_seconds")}

    found = result_of(replies)

    assert found["stop_reason"] == "max_seconds"
    assert "phase" not in found
