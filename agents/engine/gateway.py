"""The gateway: intent -> call -> result.

An intent is committed before its effect, with everything that allows it proved once more
under lock. No transaction is open during the call. The result is committed after it, and a
crash in between is settled by the key.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from django.db import InterfaceError, OperationalError
from django.db.models import JSONField
from django.utils import timezone

from agents.core.budget import REVIEW_CHANGED, Call, exceeded, refusal
from agents.core.digest import sha256
from agents.core.kinds import EFFECT_UNKNOWN
from agents.core.limits import Limits
from agents.core.replay import Reply
from agents.core.requests import Json, Use
from agents.core.rulings import settled_by
from agents.core.states import EffectState
from agents.core.strict_json import is_storable
from agents.db.compiled import CompiledSelect, CompiledUpdate, Param
from agents.db.driver import Pending, pipeline
from agents.desk import billing
from agents.engine import simulation
from agents.engine.approvals import AMOUNT_CHANGED, REFUSED, close_approvals, turn_of
from agents.engine.commit import PROGRESS, Commit
from agents.engine.crashpoints import crashpoint
from agents.engine.database import in_database
from agents.engine.escalating import fetch_escalation, open_escalation
from agents.engine.facts import fetch_facts
from agents.engine.journal import Journal, Waiting
from agents.engine.kill_switch import fetch_switch
from agents.engine.lookup import outcome_of
from agents.engine.owing import moves_money, owes_letter
from agents.engine.redaction import redact
from agents.engine.threads import TOOLS as TOOL_THREADS
from agents.engine.tool_call import ToolCall
from agents.models import Effect, Escalation, Run, Step
from agents.models.event import Entry
from agents.policies import NOTHING, review
from agents.tools import Context, OutcomeUnknown, Tool, Touch, accepts

log = logging.getLogger(__name__)

CALLS = 3  # of a tool that is safe by its key, where its connection is cut
CUT = (OperationalError, InterfaceError, ConnectionError, EOFError)


class NotAllowed(Exception):
    """The pattern used a tool that no review allowed with these arguments: a bug of ours."""


@dataclass(frozen=True)
class CallOutcome:
    """What a call came to, as far as anyone can tell."""

    state: EffectState
    reply: Reply


async def use(key: str, request: Use, journal: Journal, limits: Limits) -> Reply:
    """Call a tool once, if it may be called. Raises Waiting where only a person can tell."""
    run = journal.run
    opened, registered = journal.steps.get(key), simulation.registry(run)
    admit = partial(_admit, key, request, journal, limits)
    only_reads = request.tool in registered and not registered[request.tool].writes
    if only_reads:
        refused = admit(timezone.now())
    else:
        refused = await journal.transact(lambda commit: admit(commit.at))
    step = journal.steps[key]
    if refused:
        return Reply(failed=refused)
    tool = registered[request.tool]
    at, nth = timezone.now(), _nth(request.tool, step, journal)
    context = Context(run.book_id, _effect_key(run, key), at, limits, run.subject, nth)
    async with journal.soon():
        with journal.timed(step):
            outcome = await _past_outcome(step, tool, context) if opened and tool.writes else None
            outcome = outcome or await _call(tool, request.args, context, journal)
        kept = Reply(redact(outcome.reply.value, limits), outcome.reply.failed)
        outcome = replace(outcome, reply=kept)
        # Not after the block: where the commit beside the call fails, it ends with that error.
        if outcome.state is not EffectState.UNKNOWN:
            journal.write_unfenced(partial(_settle, tool, step, outcome))
            reply = journal.finish(step, kept, tool=request.tool)
    if outcome.state is EffectState.UNKNOWN:
        await journal.transact(partial(_ask_person, step, request, limits))
        raise Waiting(key)
    if outcome.state is EffectState.DONE and tool.find:
        journal.done[step.pk] = outcome.reply.value
    elif tool.writes:
        await journal.flush()  # nobody could ask by key after a crash, or a hold was given back
    return reply


def _admit(key: str, request: Use, journal: Journal, limits: Limits, at: datetime) -> str:
    """Write down the call, the intent of a write, or why there is none; that is returned, or "".

    For a write call it inside the journal's transaction.
    """
    step = journal.begin(key, request)
    if step.attempts > 1:
        return ""  # the intent was committed before a crash; what became of it is asked by key
    reason = _refusal(key, request, journal, limits) or _intend(step, request, journal, limits, at)
    if reason:
        journal.finish(step, Reply(failed=reason), tool=request.tool)
    return reason


def _refusal(key: str, request: Use, journal: Journal, limits: Limits) -> str:
    """Return why this call is not made, from what is known without the ledger."""
    over = exceeded(journal.spent(), limits)
    if over and not (over == "max_seconds" and _is_made_late(request.tool, journal, limits)):
        return over
    call, registered = Call(request.tool, request.args), simulation.registry(journal.run)
    reason = refusal(call, before=journal.calls(but=key), limits=limits, registered=registered)
    if not reason and not accepts(registered[request.tool], request.args):
        return f"tool_bad_args:{request.tool}"
    return reason


def _is_made_late(tool: str, journal: Journal, limits: Limits) -> bool:
    """Tell whether a call is made though the run's time is up."""
    if limits.late_calls:
        return True
    return owes_letter(journal, limits) and not moves_money(journal, tool)


def _intend(step: Step, request: Use, journal: Journal, limits: Limits, at: datetime) -> str:
    """Prove that the call is allowed, now and under lock, and write the intent of a write."""
    run, tool = journal.run, simulation.registry(journal.run)[request.tool]
    action = {"kind": "tool", "name": request.tool, "args": request.args}
    allowing = _allowing(journal, request, action)
    if not tool.writes:
        return ""
    others = [other for other in list(journal.steps.values()) if other is not step]
    with pipeline():
        switch, granted = fetch_switch(run, request.tool), _fetch_granted(allowing)
        gathered = fetch_facts(run, action, limits, others, at=at, lock=True)
    if switch.get():
        return "killed"
    facts, charge = gathered.get()
    escalation = next(iter(granted.get()), None)
    answer = journal.steps[allowing.asked["granted"]].reply if escalation else None
    settled = settled_by(escalation.review, answer) if escalation else NOTHING
    again = review(action, facts, limits, settled=settled)
    if not again.allows or again.action != action:
        return REVIEW_CHANGED
    effect_key = _effect_key(run, step.key)
    journal.tell(*_set_aside(journal, step, escalation))
    intent = _intent(step, allowing, escalation, effect_key, charge, action, at)
    journal.insert(Effect, intent, keys={"step_id": _STEP, "review_id": _STEP})
    told = {name: intent[name] for name in ("key", "tool", "args_sha256", "amount_minor")}
    journal.tell(Entry("effect.intended", told))
    if tool.reserve:
        tool.reserve(Context(run.book_id, effect_key, at, limits, run.subject), **request.args)
    return ""


def _set_aside(journal: Journal, step: Step, granted: Escalation | None) -> list[Entry]:
    """Close what was allowed of this proposal besides what goes ahead: another amount is paid."""
    turn = turn_of(step.key)
    keys = [s.key for s in list(journal.steps.values()) if s.kind == "escalate"]
    if not any(key.startswith(turn) for key in keys):
        return []
    but = granted.pk if granted else None
    return close_approvals(journal.run, why=AMOUNT_CHANGED, turn=turn, but=but)


def _allowing(journal: Journal, request: Use, action: Json) -> Step:
    """Return the review of this run that allows exactly this action. Raises NotAllowed."""
    step = journal.steps.get(request.allowed_by)
    if step is None or step.kind != "review" or not step.reply or not step.reply["allows"]:
        raise NotAllowed(f"{request.allowed_by} allows nothing")
    if sha256(step.reply["action"]) != sha256(action):
        raise NotAllowed(f"{request.allowed_by} allows something else than this {request.tool}")
    return step


def _fetch_granted(allowing: Step) -> Pending[list[Escalation]]:
    """Ask for the escalation whose decision the review rested on."""
    granted = allowing.asked["granted"]
    return fetch_escalation(allowing.run_id, granted) if granted else Pending(list)


def _intent(
    step: Step,
    allowing: Step,
    escalation: Escalation | None,
    key: str,
    charge: int | None,
    action: Json,
    at: datetime,
) -> dict[str, Json]:
    """Return the columns of an intent; its steps may have no keys yet and are found by name."""
    args = action["args"]
    customer = args.get("user_id")
    return {
        "run_id": step.run_id,
        "step_id": {"run": step.run_id, "key": step.key},
        "key": key,
        "tool": action["name"],
        "args": args,
        "args_sha256": sha256(action),
        "review_id": {"run": step.run_id, "key": allowing.key},
        "escalation_id": escalation.pk if escalation else None,
        "customer": customer if billing.could_be(customer) else None,
        "charge": charge,
        "amount_minor": args.get("amount_minor"),
        "currency": "USD" if "amount_minor" in args else "",
        "state": EffectState.INTENDED,
        "result": None,
        "intended_at": at,
        "settled_at": None,
    }


_STEP = CompiledSelect(lambda: Step.objects.filter(run=Param("run"), key=Param("key")).only("pk"))


def _effect_key(run: Run, step_key: str) -> str:
    return f"{run.pk}:{step_key}"


async def _past_outcome(step: Step, tool: Tool, context: Context) -> CallOutcome | None:
    """Return what became of a call that was begun before: by the ledger, else by its key."""
    return await in_database(_ledger_outcome, step) or await _find_outcome(tool, context)


def _ledger_outcome(step: Step) -> CallOutcome | None:
    """Return what the ledger says of a call whose step did not end: a truth of a lost commit."""
    effect = Effect.objects.filter(step=step, state__in=_SETTLED).first()
    if effect is None:
        return None
    failed = f"tool_error:{effect.tool}" if effect.result is None else ""
    return CallOutcome(EffectState(effect.state), Reply(effect.result, failed))


async def _find_outcome(tool: Tool, context: Context) -> CallOutcome | None:
    """Ask by key what became of a call that was begun before a crash; None: call it (again)."""
    if tool.find is None:
        return None if tool.touch.value != "once" else _unknown_outcome()
    try:
        async with asyncio.timeout(tool.timeout):
            result = await TOOL_THREADS.run(partial(outcome_of, tool, context.key))
    except TimeoutError:
        log.error("%s did not say in time what became of %s", tool.name, context.key)
        return _unknown_outcome()
    except OutcomeUnknown:
        return _unknown_outcome()
    if result is None:
        return None
    return (
        CallOutcome(EffectState.DONE, Reply(result)) if is_storable(result) else _unknown_outcome()
    )


def _unknown_outcome() -> CallOutcome:
    return CallOutcome(EffectState.UNKNOWN, Reply())


async def _call(tool: Tool, args: Json, context: Context, journal: Journal) -> CallOutcome:
    """Call the tool; again by the same key where a connection was cut and it did not happen."""
    for _ in range(CALLS - 1):
        outcome = await _call_once(tool, args, context, journal, is_last=False)
        if outcome:
            return outcome
        log.warning("%s was cut off and did not happen; it is called again", context.key)
    outcome = await _call_once(tool, args, context, journal, is_last=True)
    return outcome or _unknown_outcome()


async def _call_once(
    tool: Tool, args: Json, context: Context, journal: Journal, *, is_last: bool
) -> CallOutcome | None:
    """Call the tool within its deadline, and judge what came back; None: call it again."""
    fault = simulation.fault_for(journal.run, tool.name, nth=context.nth)
    call = ToolCall(tool, context, args, journal.run)
    crashpoint("gateway.before_call")
    try:
        async with asyncio.timeout(_seconds_for(tool, context.limits, journal)):
            result = await (simulation.happen(fault, call.made) if fault else call.made())
    except TimeoutError as error:
        # A deadline of ours leaves the call under way; a tool's own TimeoutError ended it.
        if not isinstance(error.__cause__, asyncio.CancelledError):
            return await _settle_failure(tool, context, f"tool_error:{tool.name}")
        call.give_up()
        if tool.writes and not fault:
            return _unknown_outcome()
        return await _settle_failure(tool, context, f"tool_timeout:{tool.name}")
    except Exception as error:  # whatever a tool raises, the run goes on to an honest end
        if tool.writes and isinstance(error, OutcomeUnknown):
            return _unknown_outcome()
        if tool.touch is Touch.SAFE and isinstance(error, CUT) and not is_last:
            return await _find_outcome(tool, context)
        return await _settle_failure(tool, context, f"tool_error:{tool.name}")
    crashpoint("gateway.after_call")
    if not is_storable(result) or not _is_in_contract(tool, result, args):
        return await _settle_failure(tool, context, f"tool_bad_result:{tool.name}")
    done = result.get("status") == "ok" or not tool.writes
    return CallOutcome(EffectState.DONE if done else EffectState.REFUSED, Reply(result))


def _is_in_contract(tool: Tool, result: Json, args: Json) -> bool:
    return isinstance(result, dict) and (tool.valid is None or tool.valid(result, args))


async def _settle_failure(tool: Tool, context: Context, reason: str) -> CallOutcome:
    """Settle a call that ended badly: by key where the tool can tell, else a person is asked."""
    if tool.writes and tool.find is None:
        return _unknown_outcome()
    found = await _find_outcome(tool, context) if tool.writes else None
    return found or CallOutcome(EffectState.REFUSED, Reply(failed=reason))


def _seconds_for(tool: Tool, limits: Limits, journal: Journal) -> float:
    """Return how long a call may take; one that only reads is cut where the run's time is up."""
    longest = min(tool.timeout, limits.call_seconds)
    if tool.writes or tool.name in limits.late or _is_made_late(tool.name, journal, limits):
        return longest
    return max(0.0, min(longest, limits.max_seconds - journal.spent().seconds))


def _nth(tool: str, step: Step, journal: Journal) -> int:
    """Return which call of a tool this is in its run, from 1."""
    calls = [s for s in list(journal.steps.values()) if s.kind == "use" and s.asked["tool"] == tool]
    return 1 + sum(other.position < step.position for other in calls)


def _settle(tool: Tool, step: Step, outcome: CallOutcome, commit: Commit) -> None:
    """Write what became of the intent; a hold that was not used is given back."""
    if not tool.writes:
        return  # what only reads has no intent
    settled = {"state": outcome.state, "result": outcome.reply.value, "at": commit.at}
    if not _SETTLE(step=step.pk, **settled):
        return
    key, is_refused = _effect_key(step.run, step.key), outcome.state is EffectState.REFUSED
    if tool.release and is_refused:
        tool.release(key, commit.at)
    commit.say(f"effect.{outcome.state.value}", {"key": key})
    if is_refused:
        why = outcome.reply.failed or REFUSED
        commit.tell(close_approvals(step.run, why=why, turn=turn_of(step.key)))


_SETTLED = (EffectState.DONE, EffectState.REFUSED)
_SETTLE = CompiledUpdate(
    lambda: Effect.objects.filter(step=Param("step")).exclude(state__in=_SETTLED),
    state=Param("state"),
    result=Param("result", JSONField()),
    settled_at=Param("at"),
)


def _ask_person(step: Step, request: Use, limits: Limits, commit: Commit) -> None:
    """Hold the step until a person says whether the effect took place."""
    Effect.objects.filter(step=step, state=EffectState.INTENDED).update(
        state=EffectState.UNKNOWN, settled_at=commit.at
    )
    commit.update(step, *PROGRESS)  # the time of the call is used up, whatever a person says
    open_escalation(
        commit,
        step=step,
        kind=EFFECT_UNKNOWN.stored,
        action={"kind": "tool", "name": request.tool, "args": request.args},
        review={"escalating": [], "deciding": UNKNOWN_RULING, "facts": {}, "rulings": []},
        limits=limits,
    )


UNKNOWN_RULING: Json = {
    "verdict": "escalate",
    "rule": "gateway.outcome",
    "reason": "effect_unknown",
    "sentence": "The call was made, but nobody can tell by its key whether it took effect. "
    "Look it up: did this happen?",
    "risk": 90,
    "observed": None,
    "limit": None,
    "flip": "",
}
