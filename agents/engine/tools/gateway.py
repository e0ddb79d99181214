"""The gateway: intent -> call -> result.

The intent is committed before the call, after everything that allows it was checked again under
lock. No transaction is open during the call. The result is committed afterwards; after a crash in
between, the key tells the outcome.
"""

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock

from django.db import DatabaseError, InterfaceError, OperationalError, transaction
from django.db.models import JSONField
from django.db.models.functions import Now
from django.utils import timezone

from agents.core.decisions import EFFECT_UNKNOWN
from agents.core.json_forms import is_storable
from agents.core.limits import Limits
from agents.core.requests import EffectState, Json, Reply, Use
from agents.core.reviews import OutcomeUnknown, Touch
from agents.db.compiled import CompiledUpdate, Param
from agents.engine import lease
from agents.engine.commit import PROGRESS, REFUSED, Commit, close_approvals, turn_of
from agents.engine.deciders import open_escalation
from agents.engine.desk.company import look_up
from agents.engine.desk.registry import fault_for, happen, tools_of
from agents.engine.desk.rules import limits_of
from agents.engine.drive import WaitsForPerson
from agents.engine.journal import Journal
from agents.engine.kill_switch import switch_against
from agents.engine.redaction import RunBorder, redact
from agents.engine.runtime.crashpoints import crashpoint
from agents.engine.runtime.database import TOOL_THREADS, in_database
from agents.engine.tools.admission import admit, effect_key, is_made_late
from agents.models import AgentCall, Effect, LostRun, Run, Step
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall, DeskTool

log = logging.getLogger(__name__)

_CALLS = 3  # for a SAFE tool whose connection is cut
_CUT = (OperationalError, InterfaceError, ConnectionError, EOFError)
SETTLED = (EffectState.DONE, EffectState.REFUSED)


@dataclass(frozen=True)
class CallOutcome:
    """A call's outcome, as far as it is known."""

    state: EffectState
    reply: Reply


_UNKNOWN = CallOutcome(EffectState.UNKNOWN, Reply())


async def use(key: str, request: Use, journal: Journal, limits: Limits) -> Reply:
    """Call a tool, if it may be called. Raises WaitsForPerson if only a person can tell."""
    run = journal.run
    is_admitted, refused, registered = key in journal.admitted, "", tools_of(run)
    opened = None if is_admitted else journal.steps.get(key)
    only_reads = request.tool in registered and not registered[request.tool].writes
    by_agent = request.tool in registered and registered[request.tool].by_agent
    if by_agent and opened:  # its agent has it
        if not await in_database(_is_report_overdue, opened):
            raise WaitsForPerson(key)
    elif only_reads and not is_admitted:
        refused = admit(key, request, journal, limits, timezone.now())
    elif not is_admitted:
        journal.ahead = await look_up(run, journal.ahead)
        refused = await journal.transact(
            lambda commit: admit(key, request, journal, limits, commit.at)
        )
    step = journal.steps[key]
    if refused:
        return Reply(failed=refused)
    tool = registered[request.tool]
    if by_agent and not opened:
        raise WaitsForPerson(key)
    at, nth = timezone.now(), _nth(request.tool, step, journal)
    own_key = effect_key(run, key)
    own = limits_of(DESKS[run.desk], limits)
    call = DeskCall(own_key, at, run.subject_key, run.book_id, own, nth)
    border = RunBorder(run)
    async with journal.soon():
        with journal.active_time.measure(step):
            begun_before = opened is not None and tool.writes
            outcome = await _past_outcome(step, tool, call, journal) if begun_before else None
            args = border.resolve(request.args)
            outcome = outcome or await _call_tool(tool, args, call, journal, limits)
        kept = Reply(border.name(outcome.reply.value), outcome.reply.failed)
        outcome = replace(outcome, reply=kept)
        # Inside the block, which raises if the commit made during the call fails.
        if outcome.state is not EffectState.UNKNOWN:
            if tool.writes:
                journal.write_unfenced(partial(settle, step=step, outcome=outcome, tool=tool))
            reply = journal.finish(step, kept, tool=request.tool)
    if outcome.state is EffectState.UNKNOWN:
        await journal.transact(partial(_ask_person, step, request, limits))
        raise WaitsForPerson(key)
    if outcome.state is EffectState.DONE and tool.find:
        journal.done[step.pk] = outcome.reply.value
    elif tool.writes:
        await journal.flush()  # after a crash it could not be looked up by key
    return reply


async def _past_outcome(
    step: Step, tool: DeskTool, call: DeskCall, journal: Journal
) -> CallOutcome | None:
    """Return the outcome of a call begun earlier, by the ledger or its key; None: call again."""
    known = await in_database(_ledger_outcome, step)
    if known or not tool.by_agent:
        return known or await _settle_cut(tool, call, journal)
    outcome = await _settle_unreported(tool, call)
    if outcome.state is not EffectState.UNKNOWN:
        return outcome
    return await in_database(reported_failure, step) or outcome


def _is_report_overdue(step: Step) -> bool:
    """Tell whether an agent has not reported in time on the call that it took."""
    begun = Effect.objects.filter(step=step, state=EffectState.INTENDED)
    return begun.filter(report_due_at__lte=Now()).exists()


def _ledger_outcome(step: Step) -> CallOutcome | None:
    """Return the ledger's outcome of a call whose step did not end."""
    effect = Effect.objects.filter(step=step, state__in=SETTLED).first()
    if effect is None:
        return None
    failed = f"tool_error:{effect.tool}" if effect.result is None else ""
    return CallOutcome(EffectState(effect.state), Reply(effect.result, failed))


def _nth(tool: str, step: Step, journal: Journal) -> int:
    """Return this call's number among its tool's calls in the run, from 1."""
    calls = [other for other in list(journal.uses) if other.asked["tool"] == tool]
    return 1 + sum(other.position < step.position for other in calls)


def _ask_person(step: Step, request: Use, limits: Limits, commit: Commit) -> None:
    """Hold the step until a person says whether the call took effect."""
    commit.update(step, *PROGRESS)  # its time is used up, whatever the person answers
    ask_what_came(step, request.tool, request.args, limits, commit)


def ask_what_came(step: Step, tool: str, args: Json, limits: Limits, commit: Commit) -> None:
    """Ask a person whether a call took effect, unless that is known by now."""
    begun = Effect.objects.filter(step=step, state=EffectState.INTENDED)
    if not begun.update(state=EffectState.UNKNOWN, settled_at=commit.at):
        return
    open_escalation(
        commit,
        step=step,
        kind=EFFECT_UNKNOWN.stored,
        action={"kind": "tool", "name": tool, "args": args},
        review={"escalating": [], "deciding": _UNKNOWN_RULING, "facts": {}, "rulings": []},
        limits=limits,
    )


_UNKNOWN_RULING: Json = {
    "verdict": "escalate",
    "rule": "gateway.outcome",
    "reason": "effect_unknown",
    "sentence": "The call was begun, but nobody can tell by its key whether it took effect. "
    "Look it up: did this happen?",
    "risk": 90,
    "observed": None,
    "limit": None,
    "flip": "",
}


# A call: within a deadline, again after a cut connection, its outcome looked up by key.


async def _call_tool(
    tool: DeskTool, args: Json, call: DeskCall, journal: Journal, limits: Limits
) -> CallOutcome:
    """Call the tool; again with the same key if it was cut off and may be. Raises LostRun."""
    for _ in range(_CALLS - 1):
        outcome = await _call_once(tool, args, call, journal, limits)
        outcome = outcome or await _settle_cut(tool, call, journal)
        if outcome:
            return outcome
        log.warning("%s was cut off and is not found; it is called again", call.key)
    outcome = await _call_once(tool, args, call, journal, limits)
    return outcome or await _settle_failure(tool, call, f"tool_error:{tool.name}")


async def _call_once(
    tool: DeskTool, args: Json, call: DeskCall, journal: Journal, limits: Limits
) -> CallOutcome | None:
    """Call the tool within its deadline, and judge its result; None: a SAFE call was cut off."""
    fault = fault_for(journal.run, tool.name, nth=call.nth)
    made = ToolCall(tool, call, args, journal.run, limits, journal.kept_at)
    seconds, has_ended = _seconds_for(tool, limits, journal), False
    crashpoint("gateway.before_call")
    try:
        async with asyncio.timeout(seconds) as limit:
            real = partial(made.result, limit, seconds)
            try:
                result = await (happen(fault, real) if fault else real())
            except TimeoutError:
                has_ended = True
                raise
    except TimeoutError as error:
        # After our own deadline the call still runs; a tool's own TimeoutError has ended it. Before
        # Python 3.11.3 the two look alike out here.
        if has_ended:
            return await _settle_error(tool, call, error, is_over=bool(fault))
        made.give_up()
        if made.never_began:
            return CallOutcome(EffectState.REFUSED, Reply(failed=f"tool_timeout:{tool.name}"))
        if tool.writes and not fault:
            return _UNKNOWN
        return await _settle_failure(tool, call, f"tool_timeout:{tool.name}", is_over=True)
    except LostRun:
        raise
    except Exception as error:  # any error of a tool becomes an outcome of the call
        return await _settle_error(tool, call, error, is_over=bool(fault))
    crashpoint("gateway.after_call")
    if not is_storable(result) or not _is_in_contract(tool, result, args):
        return await _settle_failure(tool, call, f"tool_bad_result:{tool.name}", is_over=True)
    done = result.get("status") == "ok" or not tool.writes
    return CallOutcome(EffectState.DONE if done else EffectState.REFUSED, Reply(result))


def _is_in_contract(tool: DeskTool, result: Json, args: Json) -> bool:
    return isinstance(result, dict) and (tool.valid is None or tool.valid(result, args))


def _seconds_for(tool: DeskTool, limits: Limits, journal: Journal) -> float:
    """Return how many seconds a call may take; a read is cut off when the run's time is up."""
    longest = min(tool.timeout, limits.call_seconds)
    if tool.writes or tool.name in limits.late or is_made_late(tool.name, journal, limits):
        return longest
    return max(0.0, min(longest, limits.max_seconds - journal.spending().seconds))


async def _settle_cut(tool: DeskTool, call: DeskCall, journal: Journal) -> CallOutcome | None:
    """Settle a call that was cut off; None: it is called again, with its key. Raises LostRun.

    Only a SAFE call is repeated, and not in a run that was stopped meanwhile. Its first worker may
    only hang: its late call does nothing if its hold was released; for any other call a person is
    asked.
    """
    if tool.touch is Touch.ONCE:
        return await _settle_failure(tool, call, f"tool_error:{tool.name}")
    outcome = await _find_outcome(tool, call) if tool.find else None
    if outcome:
        return outcome
    stopped = await journal.transact(lambda commit: switch_against(commit.run, tool.name))
    if not stopped:
        return None
    settled = await _settle_failure(tool, call, stopped)
    return _UNKNOWN if settled.state is EffectState.REFUSED and not tool.release else settled


async def _settle_unreported(tool: DeskTool, call: DeskCall) -> CallOutcome:
    """Settle a call without its agent's report, once it can have no effect any longer."""
    return await _settle_failure(tool, call, "not_reported", is_over=True)


async def _settle_error(
    tool: DeskTool, call: DeskCall, error: Exception, *, is_over: bool
) -> CallOutcome | None:
    """Settle a call that raised; None: it is SAFE, and was cut off."""
    if tool.writes and isinstance(error, OutcomeUnknown):
        return _UNKNOWN
    if tool.touch is Touch.SAFE and isinstance(error, _CUT):
        return None
    return await _settle_failure(tool, call, f"tool_error:{tool.name}", is_over=is_over)


async def _settle_failure(
    tool: DeskTool, call: DeskCall, reason: str, *, is_over: bool = False
) -> CallOutcome:
    """Settle a call that is not repeated: by its key if that tells, otherwise by a person.

    Unless the call `is_over`, "nothing found" proves nothing, as the other side may still be at
    work: it is looked up again when the tool's own time has passed.
    """
    refused = CallOutcome(EffectState.REFUSED, Reply(failed=reason))
    if not tool.writes:
        return refused
    for pause in (0.0,) if is_over else (0.0, tool.timeout):
        await asyncio.sleep(pause)
        outcome = await _find_outcome(tool, call)
        if outcome:
            return outcome
    return refused if tool.can_deny else _UNKNOWN


async def _find_outcome(tool: DeskTool, call: DeskCall) -> CallOutcome | None:
    """Look up a call's outcome by key; None: nothing is found."""
    if tool.find is None:
        return _UNKNOWN
    try:
        async with asyncio.timeout(tool.timeout):
            result = await TOOL_THREADS.run(partial(outcome_of, tool, call.key))
    except TimeoutError:
        log.error("%s did not tell the outcome of %s in time", tool.name, call.key)
        return _UNKNOWN
    except LookupBroken as broken:
        log.exception(broken)
        return _UNKNOWN
    except OutcomeUnknown:
        return _UNKNOWN
    if result is None:
        return None
    return CallOutcome(EffectState.DONE, Reply(result)) if is_storable(result) else _UNKNOWN


class LookupBroken(OutcomeUnknown):
    """The look-up failed; it may succeed later."""


def outcome_of(tool: DeskTool, key: str) -> Json:
    """Return the result a tool finds for a key; None if nothing is found or it has no look-up.

    Raises OutcomeUnknown if the tool cannot tell, LookupBroken for any other error of its own.
    """
    try:
        return tool.find(key) if tool.find else None
    except (OutcomeUnknown, DatabaseError):
        raise  # our own database failed: the caller retries as a whole
    except Exception as error:
        raise LookupBroken(f"{tool.name} could not be asked for the outcome of {key}") from error


# A call may return after its deadline: the run continues, and the late reply is recorded.


LATE = "call.late"
QUEUE_SECONDS = 60.0  # that a call waits for a thread while all are busy
LONGEST = 2000  # characters stored of a late reply


@dataclass
class ToolCall:
    """One call of a tool: a coroutine is cancelled at the deadline, a thread cannot be."""

    tool: DeskTool
    call: DeskCall
    args: Json
    run: Run
    limits: Limits
    kept_at: float  # the last time at which the run was certainly ours
    never_began: bool = False  # no thread was free for it, and none will take it now
    _lock: Lock = field(default_factory=Lock)
    _given_up: bool = False

    async def result(self, limit: asyncio.Timeout, seconds: float) -> Json:
        """Return what the tool returns, within `seconds` from when a thread takes the call."""
        if inspect.iscoroutinefunction(self.tool.function):
            if self._may_be_lost():
                await in_database(self._keep_run)
            return await self.tool.function(self.call, **self.args)
        loop = asyncio.get_running_loop()

        def begin() -> None:
            with suppress(RuntimeError):  # it was given up just now
                limit.reschedule(loop.time() + seconds)

        def work() -> Json:
            loop.call_soon_threadsafe(begin)
            return self._in_thread()

        limit.reschedule(loop.time() + QUEUE_SECONDS)
        reply = TOOL_THREADS.submit(work)
        try:
            return await asyncio.wrap_future(reply)
        except asyncio.CancelledError:
            self.never_began = reply.cancel()
            if not reply.done() or self.never_began:
                raise
            return reply.result()  # it came in time; the event loop was late

    def give_up(self) -> None:
        """Continue without the reply; one that has come is recorded and not used."""
        with self._lock:
            self._given_up = True

    def _may_be_lost(self) -> bool:
        """Tell whether another worker may soon take the run over, as this process hung."""
        kept_for = lease.length().total_seconds() / 2
        return self.tool.writes and time.monotonic() - self.kept_at > kept_for

    def _keep_run(self) -> None:
        """Renew the run's lease. Raises LostRun: its new worker settles this call."""
        if not Run.renew(self.run.lease_owner, lease.length(), [self.run.pk]):
            raise LostRun(self.run.pk)

    def _in_thread(self) -> Json:
        if self._may_be_lost():
            self._keep_run()
        started = time.monotonic()
        try:
            reply = self.tool.call(self.call, self.args)
        except Exception as error:
            name = type(error).__name__
            self._note(lambda: f"raised {name}", time.monotonic() - started)
            raise
        self._note(lambda: self._storable_text(reply), time.monotonic() - started)
        return reply

    def _storable_text(self, reply: Json) -> str:
        if not is_storable(reply):
            return "what cannot be kept"
        # Masked before it is cut: half a card number would not be recognised.
        return str(redact(json.dumps(reply), self.limits))[:LONGEST]

    def _note(self, sentence: Callable[[], str], seconds: float) -> None:
        """Record that a reply came too late; the run may have ended long ago."""
        with self._lock:
            if not self._given_up:
                return
        facts = {"key": self.call.key, "tool": self.tool.name, "said": sentence()}
        with transaction.atomic():
            run = Run.objects.select_for_update().get(pk=self.run.pk)
            if run.erased_at:
                facts["said"] = ""  # the run was erased meanwhile
            run.say(LATE, at=timezone.now(), facts={**facts, "after_ms": round(seconds * 1000)})


# The outcome of a write goes into the ledger, with all its consequences.


def settle(
    commit: Commit,
    step: Step,
    outcome: CallOutcome,
    *,
    tool: DeskTool | None,
    overrules: bool = False,
    said: Json = None,
    by: str = "",
) -> bool:
    """Record the outcome of a step's call. Return False if it is recorded already.

    For a refused call, `tool` releases its hold, and its approval is closed. `overrules` an earlier
    outcome: a person or the tool itself knows better. `said` is the answer of the person `by`, for
    the record.
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
    """Return an agent's report on a call that it took, as `executed` and `result`, or None."""
    mine = AgentCall.objects.filter(run=step.run_id, step=f"{turn_of(step.key)}call")
    return mine.values_list("reported", flat=True).first()


def reported_failure(step: Step) -> CallOutcome | None:
    """Return the outcome of a call that its agent reports as not executed, or None.

    It counts only once the call can have no effect: a hold released earlier could be used twice.
    """
    report = report_on(step)
    if report is None or report["executed"]:
        return None
    value = {"error": "agent_reports", **report["result"], "status": "error"}
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
