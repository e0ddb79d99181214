"""Which specialist a ticket belongs to, and what a route may hold."""

import pytest

from agents.core.actions import InvalidRoute, check_route
from agents.core.limits import BadPolicy, read_limits
from agents.core.requests import Json
from agents.desks.refunds.limits import REFUND_TOOLS, SPECIALISTS, STRICT
from agents.desks.refunds.patterns import TOPICS, is_about


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
    said = {"kind": "route", "target": SPECIALISTS[0], "args": args}

    with pytest.raises(InvalidRoute, match=reason):
        check_route(said, allowed=SPECIALISTS, forbidden=())


@pytest.mark.proves("I31")
def test_a_pattern_is_held_to_its_own_part_of_the_policy() -> None:
    routing, supervisor = STRICT.of("routing", "refunds"), STRICT.of("supervisor", "refunds")

    assert (routing.proposable, routing.max_steps, routing.max_seconds) == (SPECIALISTS, 3, 600)
    assert (supervisor.proposable, supervisor.max_steps) == (REFUND_TOOLS, 8)
    assert routing.part_of("refunds", "limits") == STRICT.part_of("refunds", "limits")


@pytest.mark.parametrize(
    "own", [{"max_stepps": 1}, {"max_steps": -1}, {"desks": {}}, {"profile": "reference"}]
)
def test_a_part_of_a_policy_is_checked_like_the_whole(own: Json) -> None:
    with pytest.raises(BadPolicy):
        read_limits({**STRICT.as_json(), "patterns": {"routing": own}})
