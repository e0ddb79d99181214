"""Answer a waiting step, and wake its run."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction

from agents.core.request_kinds import kind_of
from agents.core.requests import Json, Reply
from agents.core.states import EffectState, EscalationState, RunState
from agents.engine.commit import Commit
from agents.engine.redaction import redact_for
from agents.engine.runtime.dispatch import ring
from agents.engine.tools.calling import CallOutcome
from agents.engine.tools.outcome_by_key import LookupBroken, outcome_of
from agents.engine.tools.settling import settle
from agents.engine.withdrawal import WITHDRAWN
from agents.models import Effect, Escalation, Run, Step
from agents.tools import TOOLS, OutcomeUnknown, Tool

log = logging.getLogger(__name__)


def expire(pk: int, *, at: datetime) -> bool:
    """Expire one escalation if it is still open, and queue its run so that it can end."""
    with transaction.atomic():
        run_id = Escalation.objects.values_list("run_id", flat=True).get(pk=pk)
        run = Run.objects.select_for_update().get(pk=run_id)
        still_open = Escalation.objects.filter(pk=pk, state=EscalationState.OPEN, frozen_at=None)
        if not still_open.update(state=EscalationState.EXPIRED):
            return False
        escalation = Escalation.objects.select_related("step").get(pk=pk)
        escalation.run = run
        facts = {"escalation": pk, "expired_at": escalation.expires_at.isoformat()}
        with Commit(run, at=at) as commit:
            commit.say("escalation.expired", facts)
            reply = {"decision": EscalationState.EXPIRED.value, "comment": ""}
            answer(escalation, reply, commit)
        return True


def withdraw(escalation: Escalation, commit: Commit, *, why: str = WITHDRAWN) -> None:
    """Close an open request that its agent, or its end, took back. Call with the run locked."""
    Escalation.objects.filter(pk=escalation.pk).update(state=EscalationState.CANCELLED)
    facts = {"escalation": escalation.pk, "key": escalation.step.key, "why": why}
    commit.say("escalation.withdrawn", facts)
    answer(escalation, {"decision": why, "comment": ""}, commit)


def answer(escalation: Escalation, reply: dict[str, Json], commit: Commit) -> None:
    """Store a decision as its step's reply, and queue the run if it was waiting for it."""
    step = escalation.step
    if kind_of(escalation.kind, escalation.action).settles_call:
        _answer_unknown(escalation, step, reply, commit)
    else:
        defaults = {"granted_minor": None, "revised": False, "by": ""}
        step.reply = {**defaults, **reply, "key": step.key}
    step.ended_at = commit.at
    commit.update(step, "reply", "failed", "ended_at")
    wake(commit)


def wake(commit: Commit) -> None:
    """Queue a run that was waiting for what it has been told now."""
    if commit.run.state == RunState.WAITING:
        commit.move(RunState.QUEUED, attempts=0)
        ring(commit.run.pk)


def settle_reported(effect: Effect, result: Json, commit: Commit) -> None:
    """Put into the ledger that a call took effect, as its agent reports, and wake its run."""
    step, outcome = effect.step, CallOutcome(EffectState.DONE, Reply({**result, "status": "ok"}))
    settle(commit, step, outcome, tool=TOOLS.get(effect.tool))
    step.reply, step.ended_at = outcome.reply.value, commit.at
    commit.update(step, "reply", "ended_at")
    commit.say("step.done", {"key": step.key, "tool": effect.tool})
    wake(commit)


def _answer_unknown(
    escalation: Escalation, step: Step, reply: dict[str, Json], commit: Commit
) -> None:
    """Settle an effect as a person says: approved means that it took place."""
    if reply["decision"] not in (EscalationState.APPROVED, EscalationState.REJECTED):
        step.failed = "effect_unknown"
        return
    took_effect = reply["decision"] == EscalationState.APPROVED
    told = settle_as_told(commit, step, took_effect, by=str(reply["by"]))
    step.reply, step.failed = told.value, told.failed


def settle_as_told(
    commit: Commit, step: Step, took_effect: bool, *, by: str, said: Json = None
) -> Reply:
    """Settle a call of unknown outcome as a person says. Return what it replied, for its step.

    If the ledger or the key shows a late outcome by now, that counts instead. `said` is for an
    answer that no request's event records. Raises ValuesLocked.
    """
    effect = Effect.objects.get(step=step)
    tool = TOOLS.get(effect.tool)  # None: a desk's that has gone
    happened = took_effect and effect.state != EffectState.REFUSED
    if not happened and tool and tool.release:
        tool.release(effect.key, commit.at)  # so that a late call finds no hold to use
    is_recorded = effect.state == EffectState.DONE
    told = effect.result if is_recorded else tool and _result_by_key(tool, effect.key)
    value = redact_for(commit.run, told)
    if value is None and happened:
        value = {"status": "ok", "confirmed_by": by}
    why = "tool_error" if took_effect else "effect_denied"
    reply = Reply(value, f"{why}:{effect.tool}" if value is None else "")
    state = EffectState.REFUSED if reply.failed else EffectState.DONE
    # No `tool`: its hold was already released above.
    outcome = CallOutcome(state, reply)
    settle(commit, step, outcome, tool=None, overrules=True, said=said, by=by if said else "")
    return reply


def _result_by_key(tool: Tool, key: str) -> Json:
    """Return the result found by key, or None if there is none."""
    try:
        return outcome_of(tool, key)
    except LookupBroken as broken:
        log.exception(broken)
        return None
    except OutcomeUnknown:
        return None  # the person's answer decides
