"""Say why an approval came to nothing, in the transaction in which that is settled.

An approval ends in its effect or with a reason: on its row, where pages read it, and as an event
of its run. Whoever ends a run, asks a person anew about the same action, lets another amount go
ahead or learns that a tool refused calls this.
"""

from __future__ import annotations

from agents.core.kinds import ACTION, LETTER, stored_kinds
from agents.core.states import EffectState, EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.models import Effect, Escalation, Run, Step
from agents.models.event import Entry
from agents.tools import TOOLS

# A yes to these runs a tool; a plain output among them is an answer, and no effect.
CARRIED_OUT = stored_kinds((ACTION, LETTER))
_ALLOWED = (EscalationState.APPROVED, EscalationState.ADJUSTED)
ASKED_AGAIN, AMOUNT_CHANGED, REFUSED = "asked_again", "amount_changed", "refused"

# Asked of every run at its end, and at every intent.
_APPROVALS = CompiledSelect(
    lambda: (
        Escalation.objects.filter(
            run=Param("run"), kind__in=CARRIED_OUT, state__in=_ALLOWED, not_carried_out=""
        )
        .order_by("pk")
        .only("action", "run", "step")
    )
)
_NOT_REFUSED = CompiledSelect(
    lambda: (
        Effect.objects.filter(escalation=Param("escalation"))
        .exclude(state=EffectState.REFUSED)
        .only("pk")
    )
)


def turn_of(key: str) -> str:
    """Return what the steps of one proposal begin with: ``2/`` of ``2/person#2``."""
    return f"{key.rpartition('/')[0]}/"


def close_approvals(run: Run, *, why: str, turn: str = "", but: int | None = None) -> list[Entry]:
    """Mark what was allowed in a run, or in one turn of it, and not done. Return what to say.

    Call with the run's row locked. `why` is a code such as a stop reason; what it quotes is left
    out. `but` is an escalation that goes ahead.
    """
    code = ":".join(why.split(":")[:2])[:120]
    entries = []
    for escalation in _APPROVALS.all(run=run.pk):
        if escalation.pk == but or (turn and not escalation.step.key.startswith(turn)):
            continue
        if _is_carried_out(escalation):
            continue
        Escalation.objects.filter(pk=escalation.pk).update(not_carried_out=code)
        facts = {"escalation": escalation.pk, "key": escalation.step.key, "reason": code}
        entries.append(Entry("escalation.not_carried_out", facts))
    return entries


def _is_carried_out(escalation: Escalation) -> bool:
    """Tell whether what was allowed was done, or may have been."""
    action = escalation.action
    if action["kind"] != "tool":
        return True  # an answer is no effect: the run's own end tells of it
    tool = TOOLS.get(action["name"])
    if tool is None or tool.writes:
        return bool(_NOT_REFUSED.tuples(escalation=escalation.pk))
    steps = Step.objects.filter(run=escalation.run_id, key__startswith=turn_of(escalation.step.key))
    by_key = {step.key: step for step in steps}
    return any(
        step.kind == "use"
        and not step.failed
        and by_key[step.asked["allowed_by"]].asked["granted"] == escalation.step.key
        for step in by_key.values()
    )
