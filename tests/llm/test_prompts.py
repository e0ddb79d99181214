"""Every role has its instructions, and every answer its cost."""

from collections.abc import Sequence

import pytest

from agents.core.checkpoints import WORDS
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.scenarios import WORKERS
from agents.llm.call import cost_micro_usd
from agents.llm.prompts import prompt

AGENTS = ("committer", "executor", "assessor", "judge")
ROLES = ("worker", "writer", "router", "responder", "planner", "reporter", *AGENTS)
PROPOSED = ("get_refund_context", "issue_refund", "send_refund_email")


@pytest.mark.parametrize(
    ("role", "chosen"),
    [
        ("worker", [f"`{tool}(" for tool in PROPOSED]),
        ("executor", [f"`{tool}(" for tool in STRICT.of("workflow", "refunds").proposable]),
        ("judge", [f"`{verdict}`" for verdict in WORDS]),
        ("router", [f"`{name}`" for name in STRICT.of("routing", "refunds").proposable]),
        ("planner", [f"`{worker}`" for worker in WORKERS]),
    ],
)
def test_a_role_is_told_of_all_it_may_choose(role: str, chosen: Sequence[str]) -> None:
    assert [one for one in chosen if one not in prompt(role)] == []


@pytest.mark.parametrize(
    ("model", "tokens_in", "tokens_out", "micro_usd"),
    [
        ("gpt-4.1-mini", 1_000_000, 0, 400_000),
        ("gpt-4.1-mini", 0, 1_000_000, 1_600_000),
        ("gpt-4.1-mini", 1000, 500, 1200),
        ("gpt-4.1-mini", 1, 0, 1),  # 0.4, rounded up
        ("gpt-4.1-mini", 5, 0, 2),  # 2.0, nothing to round
        ("gpt-4.1-mini", 6, 0, 3),  # 2.4
        ("gpt-4.1-mini", 0, 0, 0),
        ("gpt-4.1-mini-2025-04-14", 1000, 500, 1200),
        ("gpt-4.1", 1000, 0, 2000),
        ("gpt-4o-2024-08-06", 1000, 0, 2500),
        ("gpt-4o-2024-05-13", 1000, 0, 5000),  # this date has a price of its own
        ("gpt-3.5-turbo-0125", 1000, 0, 500),
        ("gpt-4.1-huge", 1000, 500, None),
        ("gpt-4", 1000, 500, None),
        ("gpt-4.1-minimal", 1000, 500, None),
        ("my/gpt-4.1-mini", 1000, 500, None),
        ("", 1000, 500, None),
    ],
)
def test_a_price_is_found_by_name_and_date_only(
    model: str, tokens_in: int, tokens_out: int, micro_usd: int | None
) -> None:
    assert cost_micro_usd(model, tokens_in=tokens_in, tokens_out=tokens_out) == micro_usd
