"""Answer a waiting step, and wake its run."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction

from agents.core.kinds import kind_of
from agents.core.replay import Reply
from agents.core.requests import Json
from agents.core.states import EffectState, EscalationState, RunState
from agents.engine.calling import CallOutcome
from agents.engine.commit import Commit
from agents.engine.dispatch import ring
from agents.engine.lookup import LookupBroken, outcome_of
from agents.engine.redaction import redact_for
from agents.engine.settling import settle
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


def answer(escalation: Escalation, reply: dict[str, Json], commit: Commit) -> None:
    """Store a decision as its step's reply, and queue the run if it was waiting for it."""
    step, run = escalation.step, commit.run
    if kind_of(escalation.kind, escalation.action).settles_call:
        _answer_unknown(escalation, step, reply, commit)
    else:
        defaults = {"granted_minor": None, "revised": False, "by": ""}
        step.reply = {**defaults, **reply, "key": step.key}
    step.ended_at = commit.at
    commit.update(step, "reply", "failed", "ended_at")
    if run.state == RunState.WAITING:
        commit.move(RunState.QUEUED, attempts=0)
        ring(run.pk)


def _answer_unknown(
    escalation: Escalation, step: Step, reply: dict[str, Json], commit: Commit
) -> None:
    """Settle an effect as a person says: approved means that it took place.

    If the ledger or the key shows a late outcome by now, that counts instead.
    """
    effect = Effect.objects.get(step=step)
    if reply["decision"] not in (EscalationState.APPROVED, EscalationState.REJECTED):
        step.failed = "effect_unknown"
        return
    tool = TOOLS.get(effect.tool)  # None: a desk's that has gone
    happened = reply["decision"] == EscalationState.APPROVED and effect.state != EffectState.REFUSED
    if not happened and tool and tool.release:
        tool.release(effect.key, commit.at)  # so that a late call finds no hold to use
    is_recorded = effect.state == EffectState.DONE
    told = effect.result if is_recorded else tool and _result_by_key(tool, effect.key)
    step.reply = redact_for(escalation.run, told)
    if step.reply is None and happened:
        step.reply = {"status": "ok", "confirmed_by": reply["by"]}
    if step.reply is None:
        step.failed = f"tool_error:{effect.tool}"
    state = EffectState.REFUSED if step.failed else EffectState.DONE
    # No `tool`: its hold was already released above.
    settle(commit, step, CallOutcome(state, Reply(step.reply)), tool=None, overrules=True)


def _result_by_key(tool: Tool, key: str) -> Json:
    """Return the result found by key, or None if there is none."""
    try:
        return outcome_of(tool, key)
    except LookupBroken as broken:
        log.exception(broken)
        return None
    except OutcomeUnknown:
        return None  # the person's answer decides
