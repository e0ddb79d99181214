"""Call tools: within a deadline, again after a cut connection, outcomes looked up by key."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from django.db import InterfaceError, OperationalError

from agents.core.json_forms import is_storable
from agents.core.limits import Limits
from agents.core.requests import Json, Reply
from agents.core.states import EffectState
from agents.engine.desk.registry import fault_for, happen
from agents.engine.journal import Journal
from agents.engine.kill_switch import switch_against
from agents.engine.runtime.crashpoints import crashpoint
from agents.engine.runtime.threads import TOOL_THREADS
from agents.engine.tools.admission import is_made_late
from agents.engine.tools.outcome_by_key import LookupBroken, outcome_of
from agents.engine.tools.tool_call import ToolCall
from agents.models import LostRun
from agents.tools import Context, OutcomeUnknown, Tool, Touch

log = logging.getLogger(__name__)

CALLS = 3  # of a tool that is SAFE, whose connection is cut
CUT = (OperationalError, InterfaceError, ConnectionError, EOFError)


@dataclass(frozen=True)
class CallOutcome:
    """The outcome of a call, as far as it is known."""

    state: EffectState
    reply: Reply


UNKNOWN = CallOutcome(EffectState.UNKNOWN, Reply())


async def call_tool(tool: Tool, args: Json, context: Context, journal: Journal) -> CallOutcome:
    """Call the tool; again with the same key if it was cut off and may be. Raises LostRun."""
    for _ in range(CALLS - 1):
        outcome = await _call_once(tool, args, context, journal)
        outcome = outcome or await settle_cut(tool, context, journal)
        if outcome:
            return outcome
        log.warning("%s was cut off and is not found; it is called again", context.key)
    outcome = await _call_once(tool, args, context, journal)
    return outcome or await _settle_failure(tool, context, f"tool_error:{tool.name}")


async def settle_cut(tool: Tool, context: Context, journal: Journal) -> CallOutcome | None:
    """Settle a call that was cut off; None: it is called again, with its key. Raises LostRun.

    Only what is SAFE is. Nothing begins anew in a run that was stopped meanwhile, but its first
    worker may only stand still: its late call does nothing if what it holds was released, and
    about any other a person is asked.
    """
    if tool.touch is Touch.ONCE:
        return await _settle_failure(tool, context, f"tool_error:{tool.name}")
    found = await _find_outcome(tool, context) if tool.find else None
    if found:
        return found
    switch = await journal.transact(lambda commit: switch_against(commit.run, tool.name))
    if not switch:
        return None
    settled = await _settle_failure(tool, context, "killed")
    return UNKNOWN if settled.state is EffectState.REFUSED and not tool.release else settled


async def settle_unreported(tool: Tool, context: Context) -> CallOutcome:
    """Settle a call of which its agent has said nothing, when nothing can come of it any more."""
    return await _settle_failure(tool, context, "not_reported", is_over=True)


async def _call_once(
    tool: Tool, args: Json, context: Context, journal: Journal
) -> CallOutcome | None:
    """Call the tool within its deadline, and judge its result; None: a SAFE call was cut off."""
    fault = fault_for(journal.run, tool.name, nth=context.nth)
    call = ToolCall(tool, context, args, journal.run, journal.kept_at)
    seconds, has_ended = _seconds_for(tool, context.limits, journal), False
    crashpoint("gateway.before_call")
    try:
        async with asyncio.timeout(seconds) as limit:
            real = partial(call.result, limit, seconds)
            try:
                result = await (happen(fault, real) if fault else real())
            except TimeoutError:
                has_ended = True
                raise
    except TimeoutError as error:
        # After our own deadline the call still runs; the tool's own TimeoutError has ended it.
        # Before Python 3.11.3 the two look alike out here.
        if has_ended:
            return await _settle_error(tool, context, error, is_over=bool(fault))
        call.give_up()
        if call.never_began:
            return CallOutcome(EffectState.REFUSED, Reply(failed=f"tool_timeout:{tool.name}"))
        if tool.writes and not fault:
            return UNKNOWN
        return await _settle_failure(tool, context, f"tool_timeout:{tool.name}", is_over=True)
    except LostRun:
        raise
    except Exception as error:  # whatever a tool raises becomes an outcome of the call
        return await _settle_error(tool, context, error, is_over=bool(fault))
    crashpoint("gateway.after_call")
    if not is_storable(result) or not _is_in_contract(tool, result, args):
        return await _settle_failure(tool, context, f"tool_bad_result:{tool.name}", is_over=True)
    done = result.get("status") == "ok" or not tool.writes
    return CallOutcome(EffectState.DONE if done else EffectState.REFUSED, Reply(result))


def _is_in_contract(tool: Tool, result: Json, args: Json) -> bool:
    return isinstance(result, dict) and (tool.valid is None or tool.valid(result, args))


async def _settle_error(
    tool: Tool, context: Context, error: Exception, *, is_over: bool
) -> CallOutcome | None:
    """Settle a call that raised; None: it is SAFE, and was cut off."""
    if tool.writes and isinstance(error, OutcomeUnknown):
        return UNKNOWN
    if tool.touch is Touch.SAFE and isinstance(error, CUT):
        return None
    return await _settle_failure(tool, context, f"tool_error:{tool.name}", is_over=is_over)


async def _settle_failure(
    tool: Tool, context: Context, reason: str, *, is_over: bool = False
) -> CallOutcome:
    """Settle a call that is not made again: by its key if that tells, otherwise by a person.

    Unless the call `is_over`, "nothing" proves nothing yet, as the far side may still be at work:
    it is looked up once more when the tool's own time has passed.
    """
    refused = CallOutcome(EffectState.REFUSED, Reply(failed=reason))
    if not tool.writes:
        return refused
    for pause in (0.0,) if is_over else (0.0, tool.timeout):
        await asyncio.sleep(pause)
        found = await _find_outcome(tool, context)
        if found:
            return found
    return refused if tool.can_deny else UNKNOWN


async def _find_outcome(tool: Tool, context: Context) -> CallOutcome | None:
    """Look up by key what became of a call; None: nothing is found."""
    if tool.find is None:
        return UNKNOWN
    try:
        async with asyncio.timeout(tool.timeout):
            result = await TOOL_THREADS.run(partial(outcome_of, tool, context.key))
    except TimeoutError:
        log.error("%s did not say in time what became of %s", tool.name, context.key)
        return UNKNOWN
    except LookupBroken as broken:
        log.exception(broken)
        return UNKNOWN
    except OutcomeUnknown:
        return UNKNOWN
    if result is None:
        return None
    return CallOutcome(EffectState.DONE, Reply(result)) if is_storable(result) else UNKNOWN


def _seconds_for(tool: Tool, limits: Limits, journal: Journal) -> float:
    """Return how many seconds a call may take; a read is cut off when the run's time is up."""
    longest = min(tool.timeout, limits.call_seconds)
    if tool.writes or tool.name in limits.late or is_made_late(tool.name, journal, limits):
        return longest
    return max(0.0, min(longest, limits.max_seconds - journal.spending().seconds))
