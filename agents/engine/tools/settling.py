"""Settle a write: put into the ledger what became of it, with all that follows from that."""

from __future__ import annotations

from django.db.models import JSONField

from agents.core.requests import Json, Reply
from agents.core.states import EffectState
from agents.db.compiled import CompiledUpdate, Param
from agents.engine.commit import Commit
from agents.engine.people.approvals import REFUSED, close_approvals, turn_of
from agents.engine.tools.admission import effect_key
from agents.engine.tools.calling import CallOutcome
from agents.models import AgentCall, Effect, Step
from agents.tools import Tool

SETTLED = (EffectState.DONE, EffectState.REFUSED)


def settle(
    commit: Commit,
    step: Step,
    outcome: CallOutcome,
    *,
    tool: Tool | None,
    overrules: bool = False,
    said: Json = None,
    by: str = "",
) -> bool:
    """Write what became of a step's call. Return False where that is on record already.

    What `tool` held for a call that was refused is given back, and its approval is closed.
    `overrules` what was recorded before: a person or the tool itself knows better. `said` is what
    the person `by` answered, for the record.
    """
    state, reply = outcome.state, outcome.reply
    write = _OVERRULE if overrules else _SETTLE
    if not write(step=step.pk, state=state, result=reply.value, at=commit.at):
        return False
    key, is_refused = effect_key(commit.run, step.key), state is EffectState.REFUSED
    if tool and tool.release and is_refused:
        tool.release(key, commit.at)
    commit.say(f"effect.{state.value}", {"key": key, **(said or {})}, by)
    if is_refused:
        why = reply.failed or REFUSED
        commit.tell(close_approvals(commit.run, why=why, turn=turn_of(step.key)))
    return True


def report_on(step: Step) -> dict[str, Json] | None:
    """Return what an agent reported of a call that it took, as `executed` and `result`, or None."""
    mine = AgentCall.objects.filter(run=step.run_id, step=f"{turn_of(step.key)}call")
    return mine.values_list("reported", flat=True).first()


def reported_failure(step: Step) -> CallOutcome | None:
    """Return what came of a call of which its agent says that it did not execute it, or None.

    Believed only once nothing can come of it any more: a hold that was given back before could be
    used twice.
    """
    said = report_on(step)
    if said is None or said["executed"]:
        return None
    value = {"error": "agent_reports", **said["result"], "status": "error"}
    return CallOutcome(EffectState.REFUSED, Reply(value))


_COLUMNS = {
    "state": Param("state"),
    "result": Param("result", JSONField()),
    "settled_at": Param("at"),
}
_OVERRULE = CompiledUpdate(lambda: Effect.objects.filter(step=Param("step")), **_COLUMNS)
_SETTLE = CompiledUpdate(
    lambda: (
        Effect.objects.filter(step=Param("step"))
        .exclude(state__in=SETTLED)
        .exclude(state=Param("state"))
    ),
    **_COLUMNS,
)
