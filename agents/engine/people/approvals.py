"""Record why an approval was not carried out, in the transaction that settles it.

An approval ends in its effect or with a reason: on its row, for pages, and as an event of its run.
Code that ends a run, asks a person again about the same action, admits another amount, records a
tool's refusal or tells an agent elsewhere that its call was not executed calls this.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from agents.core.request_kinds import INQUIRY, KINDS
from agents.core.states import GRANTED, EffectState, EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.models import Effect, Escalation, Run, Step
from agents.models.record import Entry
from agents.patterns.routing import NO_SPECIALIST
from agents.tools import TOOLS

# Kinds whose approval the run carries out; for an unknown effect the answer itself is the end.
CARRIED_OUT = tuple(dict.fromkeys(kind.stored for kind in KINDS if not kind.settles_call))
OWN_ENDS = ("success", NO_SPECIALIST)  # how a run ends after doing what was allowed
ASKED_AGAIN, AMOUNT_CHANGED, REFUSED = "asked_again", "amount_changed", "refused"

# Read at the end of a run that asked people, and at every intent.
# One whose call took effect, or may have, was carried out.
_APPROVALS = CompiledSelect(
    lambda: (
        Escalation.objects.filter(
            run=Param("run"), kind__in=CARRIED_OUT, state__in=GRANTED, not_carried_out=""
        )
        .exclude(
            Exists(
                Effect.objects.filter(escalation=OuterRef("pk")).exclude(state=EffectState.REFUSED)
            )
        )
        .order_by("pk")
        .only("action", "kind", "run", "state", "step")
    )
)


def turn_of(key: str) -> str:
    """Return the prefix that the steps of one proposal share: ``2/`` for ``2/person#2``."""
    return f"{key.rpartition('/')[0]}/"


def close_approvals(run: Run, *, why: str, turn: str = "", but: int | None = None) -> list[Entry]:
    """Mark a run's, or one turn's, approvals that were not carried out. Return their events.

    Call with the run's row locked. `why` is a code such as a stop reason, whose quotation is cut
    off. `but` is an escalation that is being carried out.
    """
    code = ":".join(why.split(":")[:2])[:120]
    entries = []
    for escalation in _APPROVALS.all(run=run.pk):
        if escalation.pk == but or (turn and not escalation.step.key.startswith(turn)):
            continue
        is_call = escalation.action["kind"] == "tool"
        if is_call and _is_read(escalation):
            continue
        # An approval of anything but a call can fail only with its run.
        if not is_call and (turn or why == REFUSED or _is_heeded(escalation, why)):
            continue
        Escalation.objects.filter(pk=escalation.pk).update(not_carried_out=code)
        facts = {"escalation": escalation.pk, "key": escalation.step.key, "reason": code}
        entries.append(Entry("escalation.not_carried_out", facts))
    return entries


def _is_heeded(escalation: Escalation, why: str) -> bool:
    """Tell whether an ending run followed a decision that allows no call.

    An approval counts as followed if the run ended by itself, a correction once the agent was
    asked again.
    """
    if why in OWN_ENDS or escalation.kind == INQUIRY.stored:
        return True
    if escalation.state == EscalationState.ADJUSTED:
        own = Step.objects.filter(run=escalation.run_id, kind="ask")
        turn = turn_of(escalation.step.key)
        later = own.filter(key__startswith=turn, position__gt=escalation.step.position)
        return later.exists()
    return False


def _is_read(escalation: Escalation) -> bool:
    """Tell whether the allowed call was made by a tool that reads, which leaves no effect."""
    tool = TOOLS.get(escalation.action["name"])
    if tool is None or tool.writes:
        return False
    steps = Step.objects.filter(run=escalation.run_id, key__startswith=turn_of(escalation.step.key))
    by_key = {step.key: step for step in steps}
    return any(
        step.kind == "use"
        and not step.failed
        and by_key[step.asked["allowed_by"]].asked["granted"] == escalation.step.key
        for step in by_key.values()
    )
