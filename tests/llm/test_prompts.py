"""Every role that is asked has its instructions."""

from __future__ import annotations

import pytest

from agents.llm.prompts import prompt, prompt_version


@pytest.mark.parametrize("role", ["worker", "writer"])
def test_a_prompt_names_its_role_first(role: str) -> None:
    assert prompt(role).splitlines()[0] == f"Role: {role}"


@pytest.mark.parametrize("tool", ["get_refund_context", "issue_refund", "send_refund_email"])
def test_the_worker_is_told_of_every_tool(tool: str) -> None:
    assert f"`{tool}(" in prompt("worker")


def test_the_worker_is_told_of_json_which_the_json_mode_of_servers_demands() -> None:
    assert "JSON" in prompt("worker")


def test_a_version_is_short_and_tells_prompts_apart() -> None:
    versions = {prompt_version(role) for role in ("worker", "writer")}

    assert len(versions) == 2
    assert all(len(version) == 12 for version in versions)


def test_a_role_without_a_prompt_is_refused() -> None:
    with pytest.raises(FileNotFoundError):
        prompt("stranger")
