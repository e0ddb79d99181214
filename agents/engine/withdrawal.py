"""Calls that an agent elsewhere took back: nothing of them begins any more."""

from __future__ import annotations

from datetime import datetime

from agents.db.compiled import CompiledSelect, Param
from agents.models import AgentCall, Run

WITHDRAWN = "withdrawn"  # why such a call was not carried out
UNTAKEN = "untaken"  # the same, if the end of its session took it back


def why_withdrawn(run: Run, turn: str, *, by_agent: bool) -> str:
    """Return why the call of a turn is not carried out any more, or "". Call with the run locked.

    The end of its session takes back what its agent would execute (`by_agent`).
    """
    if not is_withdrawn(run, turn):
        return ""
    mine = AgentCall.objects.filter(run=run, step=f"{turn}call")
    ends = ends_of(run) if by_agent else []
    is_by_end = any(mine.filter(withdrawn_at__gte=at).exists() for at in ends)
    return UNTAKEN if is_by_end else WITHDRAWN


def ends_of(run: Run) -> list[datetime]:
    """Return when an agent said its last words; a session that goes on in a run has none."""
    ends = AgentCall.objects.filter(run=run, is_end=True).values_list("asked", "proposed_at")
    return [at for said, at in ends if isinstance(said, str)]


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
