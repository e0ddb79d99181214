"""Answer a waiting step, and wake its run: by a decision, a report, or an agent's next call."""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from itertools import takewhile
from operator import attrgetter

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from agents.core.decisions import kind_of
from agents.core.requests import TAKE, EffectState, EscalationState, Json, Reply, RunState, label_of
from agents.core.reviews import OutcomeUnknown
from agents.db.compiled import CompiledSelect, Param, send_rows, update_row
from agents.db.driver import Pending
from agents.engine.commit import (
    LAST_WORDS,
    UNTAKEN,
    WITHDRAWN,
    Commit,
    close_approvals,
    end_run,
    has_ended,
    is_open_earlier,
    turn_of,
)
from agents.engine.journal import AWAIT, USE
from agents.engine.redaction import redact_for
from agents.engine.runtime.dispatch import ring
from agents.engine.tools.gateway import CallOutcome, LookupBroken, outcome_of, settle
from agents.models import AgentCall, Effect, Escalation, Run, Step
from agents.sdk.desk import tools_at
from agents.sdk.desk_tools import DeskTool
from agents.tools import is_by_agent

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
    """Close an open request that its agent, or its end, withdrew. Call with the run locked."""
    Escalation.objects.filter(pk=escalation.pk).update(state=EscalationState.CANCELLED)
    facts = {"escalation": escalation.pk, "key": escalation.step.key, "why": why}
    commit.say("escalation.withdrawn", facts)
    answer(escalation, {"decision": why, "comment": ""}, commit)


def answer(escalation: Escalation, reply: dict[str, Json], commit: Commit) -> None:
    """Store a decision as its step's reply, and queue the run if it was waiting for it."""
    step = escalation.step
    if kind_of(escalation.kind, escalation.action).settles_call:
        _answer_unknown(step, reply, commit)
    else:
        defaults = {"granted_minor": None, "revised": False, "by": ""}
        step.reply = {**defaults, **reply, "key": step.key}
    step.ended_at = commit.at
    commit.update(step, "reply", "failed", "ended_at")
    wake(commit)


def wake(commit: Commit) -> None:
    """Queue a run whose answer has come."""
    if commit.run.state == RunState.WAITING:
        commit.move(RunState.QUEUED, attempts=0)
        ring(commit.run.pk)


def settle_reported(effect: Effect, result: Json, commit: Commit) -> None:
    """Record that a call took effect, as its agent reports, and wake its run."""
    step, outcome = effect.step, CallOutcome(EffectState.DONE, Reply({**result, "status": "ok"}))
    settle(commit, step, outcome, tool=tools_at(commit.run.desk).get(effect.tool))
    step.reply, step.ended_at = outcome.reply.value, commit.at
    commit.update(step, "reply", "ended_at")
    commit.say("step.done", {"key": step.key, "tool": effect.tool})
    wake(commit)


def _answer_unknown(step: Step, reply: dict[str, Json], commit: Commit) -> None:
    """Settle an effect by a person's answer: approved means that it took place."""
    if reply["decision"] not in (EscalationState.APPROVED, EscalationState.REJECTED):
        step.failed = "effect_unknown"
        return
    took_effect = reply["decision"] == EscalationState.APPROVED
    settled = settle_as_told(commit, step, took_effect, by=str(reply["by"]))
    step.reply, step.failed = settled.value, settled.failed


def settle_as_told(
    commit: Commit, step: Step, took_effect: bool, *, by: str, facts: Json = None
) -> Reply:
    """Settle a call of unknown outcome by a person's answer. Return the reply for its step.

    If the ledger or the key shows a late outcome by now, that counts instead. `facts` are of an
    answer that no request's event records. Raises ValuesLocked.
    """
    effect = Effect.objects.get(step=step)
    tool = tools_at(commit.run.desk).get(effect.tool)  # None: its desk is not installed
    happened = took_effect and effect.state != EffectState.REFUSED
    if not happened and tool and tool.release:
        tool.release(effect.key, commit.at)  # so that a late call finds no hold to use
    is_recorded = effect.state == EffectState.DONE
    result = effect.result if is_recorded else tool and _result_by_key(tool, effect.key)
    value = redact_for(commit.run, result)
    if value is None and happened:
        value = {"status": "ok", "confirmed_by": by}
    why = "tool_error" if took_effect else "effect_denied"
    reply = Reply(value, f"{why}:{effect.tool}" if value is None else "")
    state = EffectState.REFUSED if reply.failed else EffectState.DONE
    # No `tool`: its hold was already released above.
    outcome = CallOutcome(state, reply)
    settle(commit, step, outcome, tool=None, overrules=True, said=facts, by=by if facts else "")
    return reply


def _result_by_key(tool: DeskTool, key: str) -> Json:
    """Return the result found by key, or None if there is none."""
    try:
        return outcome_of(tool, key)
    except LookupBroken as broken:
        log.exception(broken)
        return None
    except OutcomeUnknown:
        return None  # the person's answer decides


# An external agent's calls go to the listening slots of its run. Slots read facts in parallel, so
# calls are given out one at a time, in the order of proposal: the next once the one before is
# answered or waits for a person, unless their agent lets them run in parallel. A run left with a
# call to give is queued again, so that no call is lost that came during the drive. After the
# agent's last words nobody takes allowed calls: they are withdrawn, and so are those that a person
# was asked about.


SILENT = "agent_silent"  # the end of a run whose agent stays away


def assign_call(commit: Commit, steps: Sequence[Step], waiting: Sequence[AgentCall]) -> bool:
    """Give the oldest waiting call to a listening slot. Return whether there were both.

    - `steps` are the run's open ones.
    - At most `at_once` slots have a call that is not out with its agent.
    - With a call go those that follow, as long as their agent lets all of them run in parallel.
    - The end goes to all listening slots, once no call is out or unknown. A slot whose call waits
      for a person gets it afterwards, and all of them once the session's earlier runs have ended.
    - A given call is stored as such, a new one in its first row.

    Call with the run locked.
    """
    slots = sorted(filter(is_listening, steps), key=attrgetter("position"))
    if not (slots and waiting):
        return False
    first, *others = waiting
    if first.key == LAST_WORDS and is_open_earlier(commit.run):
        return False
    if first.is_end and any(step.kind == USE for step in steps):
        return False
    if first.is_end:
        for step in slots:
            answer_await(step, {"end": first.asked}, commit)
        return True
    idle = {_slot(step) for step in slots} | _slots_out(commit.run, steps)
    busy = {_slot(step) for step in steps} - idle
    room = max(commit.run.limits.at_once - len(busy), 0)
    more = takewhile(attrgetter("side_by_side"), others) if first.side_by_side else ()
    for step, call in zip(slots[:room], (first, *more), strict=False):
        gone, request = {"withdrawn": True} if call.withdrawn_at else {}, call.asked or {}
        call.step, call.asked = step.key, None
        if call.pk is None:
            send_rows(call).get()
        else:
            update_row(call, "step", "asked")
        answer_await(step, {"call": call.pk, **gone, **request}, commit)
    return room > 0


def fetch_waiting(run: Run) -> Pending[list[AgentCall]]:
    """Fetch the oldest calls that no slot has, one for each slot, in an open pipeline if any."""
    return _waiting(run.limits.at_once).fetch(run=run.pk)


@cache
def _waiting(most: int) -> CompiledSelect[AgentCall]:
    def query() -> QuerySet[AgentCall]:
        waiting = AgentCall.objects.filter(run=Param("run"), step="")
        return waiting.order_by("is_end", "pk")[:most]

    return CompiledSelect(query)


def answer_await(step: Step, reply: Json, commit: Commit) -> None:
    step.reply, step.ended_at = reply, commit.at
    commit.update(step, "reply", "ended_at")
    commit.say("step.done", {"key": step.key})


def take_back(commit: Commit, waiting: Sequence[Step]) -> bool:
    """Withdraw these steps' calls for the agent. Return whether there were any.

    Calls that a person was asked about go too: nobody would take them after an approval. Taken
    calls stay. Call with the run locked.
    """
    untaken = [step for step in waiting if is_untaken(step)]
    asking = [step for step in waiting if _asks_for_agent(commit.run, step)]
    for step in (*untaken, *asking):
        mine = AgentCall.objects.filter(run=commit.run.pk, step=f"{turn_of(step.key)}call")
        mine.update(withdrawn_at=commit.at)
        commit.tell(close_approvals(commit.run, why=UNTAKEN, turn=turn_of(step.key)))
    for step in untaken:
        answer_await(step, {"withdrawn": True}, commit)
    keys = [step.key for step in asking]  # one that is new in this commit has no number yet
    requests = Escalation.objects.filter(run=commit.run.pk, state=EscalationState.OPEN)
    for one in requests.filter(step__key__in=keys).select_related("step") if keys else ():
        withdraw(one, commit, why=UNTAKEN)
    return bool(untaken or asking)


def take_back_at_end(commit: Commit, waiting: Sequence[Step]) -> bool:
    """Withdraw them if the agent has said its last words, in any run of the session."""
    if not any(is_untaken(step) or _asks_for_agent(commit.run, step) for step in waiting):
        return False
    return has_ended(commit.run) and take_back(commit, waiting)


def end_silent(*, most: int, at: datetime) -> int:
    """Stop runs whose agents have not called for too long. Return their number."""
    idle = Run.objects.filter(state=RunState.WAITING, idle_until__lte=Now())
    due = idle.exclude(escalations__state=EscalationState.OPEN).order_by("idle_until", "pk")
    count = 0
    for pk in list(due.values_list("pk", flat=True)[:most]):
        with transaction.atomic():
            run = Run.objects.select_for_update(of=("self",)).get(pk=pk)
            if run.state != RunState.WAITING or run.idle_until is None or run.idle_until > at:
                continue
            with Commit(run, at=at) as commit:
                end_run(commit, RunState.STOPPED, stop_reason=SILENT, facts={"stop_reason": SILENT})
            count += 1
    return count


def is_listening(step: Step) -> bool:
    """Tell whether a step is a slot that waits for a call."""
    return step.kind == AWAIT and step.ended_at is None and label_of(step.key) != TAKE


def is_untaken(step: Step) -> bool:
    """Tell whether a step is an allowed call that its agent has not taken."""
    return step.kind == AWAIT and step.ended_at is None and label_of(step.key) == TAKE


def is_out(run: Run, step: Step) -> bool:
    """Tell whether the agent has the call of a step: to take it, or to report its outcome."""
    if step.kind == USE and step.ended_at is None and is_by_agent(run.desk, step.asked["tool"]):
        return True
    return is_untaken(step)


def _asks_for_agent(run: Run, step: Step) -> bool:
    """Tell whether a step waits for a person about a call that its agent would execute."""
    if step.kind != "escalate" or step.ended_at is not None:
        return False
    action = step.asked["action"]
    return action["kind"] == "tool" and is_by_agent(run.desk, action["name"])


def slots_of(run: Run, steps: Iterable[Step]) -> int:
    """Return how many slots a session needs: `at_once`, and one for each call that is out.

    Once opened a slot stays. Pass all steps of the run.
    """
    known, had = list(steps), {_slot(step) for step in steps if step.kind == AWAIT}
    return max(run.limits.at_once + len(_slots_out(run, known)), len(had))


def _slot(step: Step) -> str:
    return "/".join(step.key.split("/", 2)[:2])


def _slots_out(run: Run, steps: Iterable[Step]) -> set[str]:
    """Return the slots whose call is out, except those that have gone on without a report."""
    listening = filter(is_listening, steps)
    out = (step for step in steps if is_out(run, step))
    return {_slot(step) for step in out} - {_slot(step) for step in listening}
