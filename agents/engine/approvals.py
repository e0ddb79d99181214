"""Say why an approval came to nothing, in the transaction in which that is settled.

An approval ends in its effect or with a reason: on its row, where pages read it, and as an event
of its run. Whoever ends a run, asks a person anew about the same action, lets another amount go
ahead or learns that a tool refused calls this.
"""

from __future__ import annotations

from agents.core.kinds import KINDS, stored_kinds
from agents.core.states import GRANTED, EffectState, EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.models import Effect, Escalation, Run, Step
from agents.models.event import Entry
from agents.patterns.routing import NO_SPECIALIST
from agents.tools import TOOLS

# Kinds whose approval the run then carries out; of an unknown effect the answer itself is the end.
CARRIED_OUT = stored_kinds(tuple(kind for kind in KINDS if not kind.settles_call))
OWN_ENDS = ("success", NO_SPECIALIST)  # a run ends so when it did what was allowed
ASKED_AGAIN, AMOUNT_CHANGED, REFUSED = "asked_again", "amount_changed", "refused"

# Read at the end of a run that asked people, and at every intent.
_APPROVALS = CompiledSelect(
    lambda: (
        Escalation.objects.filter(
            run=Param("run"), kind__in=CARRIED_OUT, state__in=GRANTED, not_carried_out=""
        )
        .order_by("pk")
        .only("action", "kind", "run", "state", "step")
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
    """Mark a run's, or one turn's, approvals that were not carried out. Return their events.

    Call with the run's row locked. `why` is a code such as a stop reason; what it quotes is left
    out. `but` is an escalation that goes ahead.
    """
    code = ":".join(why.split(":")[:2])[:120]
    entries = []
    for escalation in _APPROVALS.all(run=run.pk):
        if escalation.pk == but or (turn and not escalation.step.key.startswith(turn)):
            continue
        is_call = escalation.action["kind"] == "tool"
        if is_call and _is_carried_out(escalation):
            continue
        # An approval of something other than a call can only fail with its run.
        if not is_call and (turn or why == REFUSED or _is_heeded(escalation, why)):
            continue
        Escalation.objects.filter(pk=escalation.pk).update(not_carried_out=code)
        facts = {"escalation": escalation.pk, "key": escalation.step.key, "reason": code}
        entries.append(Entry("escalation.not_carried_out", facts))
    return entries


def _is_heeded(escalation: Escalation, why: str) -> bool:
    """Tell whether a run that ends went the way of a decision that allows no call.

    What stands counts where the run comes to its own end; a correction, once it was worked on.
    """
    if why in OWN_ENDS:
        return True
    if escalation.state == EscalationState.ADJUSTED:
        own = Step.objects.filter(run=escalation.run_id, kind="ask")
        turn = turn_of(escalation.step.key)
        later = own.filter(key__startswith=turn, position__gt=escalation.step.position)
        return later.exists()
    return False


def _is_carried_out(escalation: Escalation) -> bool:
    """Tell whether what was allowed was done, or may have been."""
    tool = TOOLS.get(escalation.action["name"])
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
