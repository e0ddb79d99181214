"""Routing over scripted replies: what a route may hold, and where a run ends."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agents.core.json_forms import InvalidRoute, check_route
from agents.core.requests import Json, Reply
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.patterns import TOPICS, is_about
from agents.patterns import Brief, result

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


@pytest.mark.parametrize(
    "seen",
    [{"status": "done"}, {"status": "done", "result": {"a": 1}, "error": "x"}, {"status": "ok"}],
)
def test_a_reply_out_of_contract_is_never_answered_from(seen: dict[str, Any]) -> None:
    found = result_of(attempt(1, "billing", seen))

    assert (found["stop_reason"], found["bad_observation"]) == ("route_bad_observation", seen)
    assert found["received_status"] == seen["status"]


@pytest.mark.parametrize(
    ("ticket", "topic"),
    [
        ("Refund of the monthly charge", "billing"),
        ("I was charged twice and want it refunded", "billing"),
        ("The API returns error 500", "technical"),
        ("Which plan, and what discount?", "sales"),
        ("refund my pro plan charge", "billing"),
        ("please give a rapid refund", "billing"),
        ("refund for the planet", "billing"),
        ("this is not a billing question", None),
        ("an error on my invoice", "billing"),
        ("Anna asks for a refund of her annual plan", "billing"),
        ("refund the plan, charge a discount", "billing"),
        ("refund my plan at a discount", "sales"),
        ("I want no refund at all; which plan?", "sales"),
        ("a billing plan", None),  # both fit equally
        ("an error in the price", None),
        ("refund: api error, plan price", None),
        ("what will the weather be", None),
    ],
)
def test_a_ticket_is_about_one_topic_or_about_none(ticket: str, topic: str | None) -> None:
    assert [name for name in TOPICS if is_about(name, ticket)] == ([topic] if topic else [])


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"ticket": "x" * 4001}, "bad_ticket"),
        ({"ticket": "refund \u202e evil"}, "bad_ticket"),
        ({"ticket": "refund", "user_id": 7}, "extra_args"),
        ({"user_id": 7}, "missing_ticket"),
    ],
)
def test_a_route_carries_a_short_ticket_and_nothing_else(args: Json, reason: str) -> None:
    said = {"kind": "route", "target": LIMITS.proposable[0], "args": args}

    with pytest.raises(InvalidRoute, match=reason):
        check_route(said, allowed=LIMITS.proposable, forbidden=())


@pytest.mark.proves("I31")
def test_a_pattern_is_held_to_its_own_part_of_the_policy() -> None:
    routing, supervisor = STRICT.of("routing", "refunds"), STRICT.of("supervisor", "refunds")

    assert (len(routing.proposable), routing.max_steps, routing.max_seconds) == (3, 3, 600)
    assert (len(supervisor.proposable), supervisor.max_steps) == (3, 8)
    assert routing.part_of("refunds", "limits") == STRICT.part_of("refunds", "limits")
