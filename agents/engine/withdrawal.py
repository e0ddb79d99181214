"""Calls that an agent elsewhere took back: nothing of them begins any more."""

from __future__ import annotations

from django.db.models import QuerySet

from agents.db.compiled import CompiledSelect, Param
from agents.models import AgentCall, Run

WITHDRAWN = "withdrawn"  # why such a call was not carried out
UNTAKEN = "untaken"  # the same, if the end of its session took it back
LAST_WORDS = "end"  # the key of the call with which an agent ends a session


def why_withdrawn(run: Run, turn: str, *, by_agent: bool) -> str:
    """Return why the call of a turn is not carried out any more, or "". Call with the run locked.

    The end of its session takes back what its agent would execute (`by_agent`).
    """
    if not is_withdrawn(run, turn):
        return ""
    mine = AgentCall.objects.filter(run=run, step=f"{turn}call")
    ended_at = _end_of(run).values("proposed_at")
    is_by_end = by_agent and mine.filter(withdrawn_at__gte=ended_at).exists()
    return UNTAKEN if is_by_end else WITHDRAWN


def has_ended(run: Run) -> bool:
    """Tell whether an agent has said its last words, in any run of the session."""
    return _end_of(run).exists()


def _end_of(run: Run) -> QuerySet[AgentCall]:
    session = AgentCall.objects.filter(agent=run.agent_id, reference=run.reference or "")
    return session.filter(key=LAST_WORDS)


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
