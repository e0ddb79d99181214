"""Every role has its instructions."""

from __future__ import annotations

import pytest

from agents.core.verdicts import WORDS
from agents.desks.refunds.profiles import SPECIALISTS, STRICT, WORKERS
from agents.llm.prompts import prompt

AGENTS = ("committer", "executor", "assessor", "judge")
ROLES = ("worker", "writer", "router", "responder", "planner", "reporter", *AGENTS)


@pytest.mark.parametrize("role", ROLES)
def test_a_prompt_names_its_role_first(role: str) -> None:
    assert prompt(role).splitlines()[0] == f"Role: {role}"


@pytest.mark.parametrize("tool", ["get_refund_context", "issue_refund", "send_refund_email"])
def test_the_worker_is_told_of_every_tool(tool: str) -> None:
    assert f"`{tool}(" in prompt("worker")


@pytest.mark.parametrize("tool", STRICT.of("workflow").proposable)
def test_the_executor_is_told_of_every_tool(tool: str) -> None:
    assert f"`{tool}(" in prompt("executor")


@pytest.mark.parametrize("verdict", WORDS)
def test_the_judge_is_told_of_every_verdict(verdict: str) -> None:
    assert f"`{verdict}`" in prompt("judge")


@pytest.mark.parametrize("specialist", SPECIALISTS)
def test_the_router_is_told_of_every_specialist(specialist: str) -> None:
    assert f"`{specialist}`" in prompt("router")


@pytest.mark.parametrize("worker", WORKERS)
def test_the_planner_is_told_of_every_worker(worker: str) -> None:
    assert f"`{worker}`" in prompt("planner")


@pytest.mark.parametrize("role", ["worker", "router", "planner", *AGENTS])
def test_who_answers_in_json_is_told_so_which_the_json_mode_of_servers_demands(role: str) -> None:
    assert "JSON" in prompt(role)


def test_a_role_that_nobody_registered_is_refused() -> None:
    with pytest.raises(KeyError):
        prompt("stranger")
