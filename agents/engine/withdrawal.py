"""Calls that an agent elsewhere took back: nothing of them begins any more."""

from __future__ import annotations

from agents.db.compiled import CompiledSelect, Param
from agents.models import AgentCall, Run

WITHDRAWN = "withdrawn"  # why such a call was not carried out


def is_withdrawn(run: Run, turn: str) -> bool:
    """Tell whether an agent has taken back the call of a turn. Call with the run locked."""
    if run.agent_id is None:
        return False
    return bool(_WITHDRAWN.tuples(run=run.pk, step=f"{turn}call"))


_WITHDRAWN = CompiledSelect(
    lambda: AgentCall.objects.filter(
        run=Param("run"), step=Param("step"), withdrawn_at__isnull=False
    ).only("pk")
)
