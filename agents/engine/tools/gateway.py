"""The gateway: intent -> call -> result.

The intent is committed before the call, after everything that allows it was checked again under
lock. No transaction is open during the call. The result is committed afterwards; after a crash in
between, the key tells the outcome.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from django.db.models.functions import Now
from django.utils import timezone

from agents.core.limits import Limits
from agents.core.request_kinds import EFFECT_UNKNOWN
from agents.core.requests import Json, Reply, Use
from agents.core.states import EffectState
from agents.engine.commit import PROGRESS, Commit
from agents.engine.desk.company import look_up
from agents.engine.desk.registry import tools_of
from agents.engine.drive import WaitsForPerson
from agents.engine.journal import Journal
from agents.engine.people.escalating import open_escalation
from agents.engine.redaction import RunBorder
from agents.engine.runtime.database import in_database
from agents.engine.tools.admission import admit, effect_key
from agents.engine.tools.calling import CallOutcome, call_tool, settle_cut, settle_unreported
from agents.engine.tools.settling import SETTLED, reported_failure, settle
from agents.models import Effect, Step
from agents.tools import Context, Tool


async def use(key: str, request: Use, journal: Journal, limits: Limits) -> Reply:
    """Call a tool, if it may be called. Raises WaitsForPerson if only a person can tell."""
    run = journal.run
    opened, registered = journal.steps.get(key), tools_of(run)
    only_reads = request.tool in registered and not registered[request.tool].writes
    by_agent = request.tool in registered and registered[request.tool].by_agent
    if by_agent and opened:  # its agent has it
        if not await in_database(_is_report_overdue, opened):
            raise WaitsForPerson(key)
        refused = ""
    elif only_reads:
        refused = admit(key, request, journal, limits, timezone.now())
    else:
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
    context = Context(run.book_id, own_key, at, limits, run.subject_key, nth)
    border = RunBorder(run)
    async with journal.soon():
        with journal.active_time.measure(step):
            begun_before = opened is not None and tool.writes
            outcome = await _past_outcome(step, tool, context, journal) if begun_before else None
            args = border.resolve(request.args)
            outcome = outcome or await call_tool(tool, args, context, journal)
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
    step: Step, tool: Tool, context: Context, journal: Journal
) -> CallOutcome | None:
    """Return the outcome of a call begun earlier, by the ledger or its key; None: call again."""
    known = await in_database(_ledger_outcome, step)
    if known or not tool.by_agent:
        return known or await settle_cut(tool, context, journal)
    found = await settle_unreported(tool, context)
    if found.state is not EffectState.UNKNOWN:
        return found
    return await in_database(reported_failure, step) or found


def _is_report_overdue(step: Step) -> bool:
    """Tell whether an agent has not said in time that the call which it has took effect."""
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
    commit.update(step, *PROGRESS)  # its time is spent, whatever the person answers
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
        review={"escalating": [], "deciding": UNKNOWN_RULING, "facts": {}, "rulings": []},
        limits=limits,
    )


UNKNOWN_RULING: Json = {
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
