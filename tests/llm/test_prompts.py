"""Every role has its instructions."""

from collections.abc import Sequence

import pytest

from agents.core.checkpoints import WORDS
from agents.desks.refunds.limits import SPECIALISTS, STRICT, WORKERS
from agents.llm.prompts import prompt

AGENTS = ("committer", "executor", "assessor", "judge")
ROLES = ("worker", "writer", "router", "responder", "planner", "reporter", *AGENTS)
PROPOSED = ("get_refund_context", "issue_refund", "send_refund_email")


@pytest.mark.parametrize("role", ROLES)
def test_a_prompt_names_its_role_first(role: str) -> None:
    assert prompt(role).splitlines()[0] == f"Role: {role}"


@pytest.mark.parametrize(
    ("role", "chosen"),
    [
        ("worker", [f"`{tool}(" for tool in PROPOSED]),
        ("executor", [f"`{tool}(" for tool in STRICT.of("workflow", "refunds").proposable]),
        ("judge", [f"`{verdict}`" for verdict in WORDS]),
        ("router", [f"`{specialist}`" for specialist in SPECIALISTS]),
        ("planner", [f"`{worker}`" for worker in WORKERS]),
    ],
)
def test_a_role_is_told_of_all_it_may_choose(role: str, chosen: Sequence[str]) -> None:
    assert [one for one in chosen if one not in prompt(role)] == []


@pytest.mark.parametrize("role", ["worker", "router", "planner", *AGENTS])
def test_json_roles_are_told_to_answer_in_json(role: str) -> None:
    assert "JSON" in prompt(role)
