"""Calls that an agent elsewhere took back: nothing of them begins any more."""

from __future__ import annotations

from agents.models import AgentCall, Run

WITHDRAWN = "withdrawn"  # why such a call was not carried out


def is_withdrawn(run: Run, turn: str) -> bool:
    """Tell whether an agent has taken back the call of a turn. Call with the run locked."""
    if run.agent_id is None:
        return False
    return AgentCall.objects.filter(run=run, step=f"{turn}call").exclude(withdrawn_at=None).exists()
