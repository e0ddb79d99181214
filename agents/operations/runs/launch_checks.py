"""Refuse launches with an invalid goal, subject, desk or policy."""

from __future__ import annotations

from agents import patterns
from agents.core.actions import has_hidden
from agents.core.limits import EXTERNAL
from agents.core.names import invisible_characters
from agents.core.requests import Json
from agents.models import PolicyVersion, Role, Workspace
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused

MAX_GOAL = 8000  # characters


def check_version(
    workspace: Workspace, version: PolicyVersion, published: PolicyVersion | None, role: str
) -> None:
    """Refuse a policy version that this person may not launch under. Raises Refused."""
    if version == published:
        return
    is_here = version.workspace_id == workspace.pk
    if not is_here or (version.is_replay and not workspace.is_demo):
        raise Refused("unknown_policy", f"{workspace.name} has no such policy version.")
    if not version.is_replay and role != Role.ADMIN:
        now = f"v{published.number}" if published else "none"
        raise Refused(
            "other_policy",
            f"New runs follow the published policy, {now}. Launching under v{version.number} "
            "is for admins only.",
        )


def check_desk(desk: str, pattern: str, version: PolicyVersion, *, by_agent: bool = False) -> None:
    """Refuse a launch for an unsuitable desk. Raises Refused.

    An agent elsewhere drives a run of any desk, and nobody else launches one for it.
    """
    if desk not in DESKS:
        raise Refused("unknown_desk", f"There is no desk {desk!r} here.")
    if not version.limits().covers(desk):
        raise Refused("unknown_desk", f"The policy has no rules for the desk {desk!r}.")
    if pattern not in patterns.PATTERNS:
        known = ", ".join(sorted(patterns.PATTERNS))
        raise Refused("unknown_pattern", f"There is no pattern {pattern!r}. Patterns: {known}.")
    if by_agent != (pattern == EXTERNAL):
        raise Refused("other_pattern", "Only an agent's key opens a run of the pattern external.")
    if not by_agent and pattern not in (of := patterns.offered_at(DESKS[desk])):
        known = " and ".join(of)
        raise Refused("other_pattern", f"The desk {desk!r} has no {pattern}, only a {known}.")
    if not version.limits().covers(desk, pattern):
        raise Refused(
            "other_pattern",
            f"The policy has no part for the pattern {pattern} of the desk {desk!r}. "
            f"publish_policy --add-desk {desk} adds it.",
        )


def check_launch(
    workspace: Workspace,
    pattern: str,
    goal: str,
    subject: int | str | None,
    version: PolicyVersion,
    desk: str,
    simulation: Json,
) -> None:
    """Refuse an invalid launch. Raises Refused."""
    if not goal.strip():
        raise Refused("no_goal", "Describe in a sentence what the run should achieve.")
    if len(goal) > MAX_GOAL or has_hidden(goal) or invisible_characters(goal):
        raise Refused(
            "bad_goal",
            f"A goal has at most {MAX_GOAL:,} characters, without control or invisible characters.",
        )
    limits = version.limits_of(pattern, desk)
    profile, kind = limits.profile, DESKS[desk].subject.kind
    if subject is None and pattern != "orchestrator" and profile != "reference":
        raise Refused("no_subject", f"Enter the {kind} that this run is about.")
    if profile == "reference" and not workspace.is_demo:
        raise Refused(
            "reference_elsewhere",
            "The profile reference has known holes; it runs only on a demo workspace's books.",
        )
    if simulation and profile != "reference":
        raise Refused("simulation_elsewhere", "Faults are simulated only under profile reference.")
