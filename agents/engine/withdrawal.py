"""Calls that an agent elsewhere took back: nothing of them begins any more."""

from __future__ import annotations

from django.db.models import QuerySet

from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.models import AgentCall, Run

WITHDRAWN = "withdrawn"  # why such a call was not carried out
UNTAKEN = "untaken"  # the same, if the end of its session took it back
LAST_WORDS = "end"  # the key of the call with which an agent ends a session


def why_withdrawn(run: Run, turn: str, *, by_agent: bool) -> str:
    """Return why the call of a turn, which is withdrawn, is not carried out any more.

    The end of its session takes back what its agent would execute (`by_agent`).
    """
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
    return fetch_withdrawn(run, turn).get()


def fetch_withdrawn(run: Run, turn: str) -> Pending[bool]:
    """Fetch what `is_withdrawn` tells, in an open pipeline if any."""
    if run.agent_id is None:
        return Pending(lambda: False)
    found = _WITHDRAWN.fetch_tuples(run=run.pk, step=f"{turn}call")
    return Pending(lambda: bool(found.get()))


_WITHDRAWN = CompiledSelect(
    lambda: AgentCall.objects.filter(
        run=Param("run"), step=Param("step"), withdrawn_at__isnull=False
    ).only("pk")
)
