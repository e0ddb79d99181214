"""OpenAI Agents SDK: the desk's tools, and the continuation of a saved run.

The tool itself asks the desk, and waits: an approval callback is not called for every shape of
arguments, and one may give up. If the session has a patience, the SDK interrupts the run for a call
that waits longer; an approval there only wakes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agents import FunctionTool, RunContextWrapper, RunState
from agents.tool_context import ToolContext
from opsconsole_client.desk import Session
from opsconsole_client.keys import Asked
from opsconsole_client.outcomes import Outcome


def supervised_tools(session: Session) -> list[Any]:
    """Return the desk's tools: `Agent(name=…, tools=supervised_tools(session))`."""
    return [_tool(session, declared) for declared in session.tools()]


async def wake(session: Session, state: RunState[Any, Any]) -> bool:
    """Approve what the desk has settled in an interrupted run. Return whether that is all of it.

    The call itself is made again, and asks the desk for its outcome.
    """
    names, is_all = {declared["name"] for declared in await session.atools()}, True
    for response in state.to_json()["model_responses"]:
        for item in response["output"]:
            if item.get("type") != "function_call" or item["name"] not in names:
                continue
            if asked := _asked(item["name"], item["arguments"], item["call_id"]):
                session.said_before(asked)
    for item in state.get_interruptions():
        raw: Any = item.raw_item
        if raw.name not in names:
            is_all = False
            continue
        asked = _asked(raw.name, raw.arguments, raw.call_id)
        told = None if asked is None else await _ask(session, asked, patience=0)
        if told is None or told.is_settled:
            state.approve(item)
        else:
            is_all = False
    return is_all


def _tool(session: Session, declared: Mapping[str, Any]) -> FunctionTool:
    name = declared["name"]

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        asked = _asked(name, arguments, context.tool_call_id)
        if asked is None:
            return json.dumps({"status": "not_executed", "reason": "invalid_json"})
        return (await _ask(session, asked, patience=None)).text

    async def is_held(
        context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        told = await _ask(session, Asked(name, arguments, call_id), patience=session.patience)
        return not told.is_settled

    return FunctionTool(
        name=name,
        description=declared["description"],
        params_json_schema=declared["input_schema"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=False if session.patience is None else is_held,
    )


def _asked(name: str, arguments: str, call_id: str) -> Asked | None:
    """Return a call of the model; None if its arguments are no object."""
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        return None
    return Asked(name, given, call_id) if isinstance(given, dict) else None


async def _ask(session: Session, asked: Asked, *, patience: float | None) -> Outcome:
    """Ask the desk about a call. The SDK tells no tool of the conversation: the session counts."""
    return await session.acall_said(session.said_before(asked), asked, patience=patience)
