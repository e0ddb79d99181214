"""LangChain and LangGraph: a middleware with the desk's tools, which sends their calls to it.

A call that waits longer than the session's patience interrupts the graph. Resuming it, with any
value, only wakes it: LangGraph runs the call again from its start, and asks the desk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

from opsconsole_client.desk import Session
from opsconsole_client.keys import Asked
from opsconsole_client.outcomes import Outcome


class Supervision(AgentMiddleware[Any, Any, Any]):
    """`create_agent(model, middleware=[Supervision(session)])`.

    In your own graph: `ToolNode(supervision.tools, wrap_tool_call=supervision.wrap_tool_call,
    awrap_tool_call=supervision.awrap_tool_call)`.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session, self._waits = session, session.patience is None
        self.tools = [_tool(declared) for declared in session.tools()]
        self._names = {tool.name for tool in self.tools}

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        if request.tool_call["name"] not in self._names:
            return handler(request)
        told = self._session.call_said(*_said(request))
        while not (told.is_settled or self._waits):
            interrupt(told.told)
            told = self._session.call_said(*_said(request))
        return _message(request, told)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        if request.tool_call["name"] not in self._names:
            return await handler(request)
        told = await self._session.acall_said(*_said(request))
        while not (told.is_settled or self._waits):
            interrupt(told.told)
            told = await self._session.acall_said(*_said(request))
        return _message(request, told)


def _tool(declared: Mapping[str, Any]) -> StructuredTool:
    def never(**arguments: Any) -> None:
        raise AssertionError("The console carries this out. Give Supervision to the graph.")

    return StructuredTool.from_function(
        func=never,
        name=declared["name"],
        description=declared["description"],
        args_schema=declared["input_schema"],
    )


def _said(request: ToolCallRequest) -> tuple[list[list[Asked]], Asked]:
    """Return the calls of the conversation, by message, and the call to make."""
    state = request.state
    known = state.get("messages", []) if isinstance(state, dict) else state
    messages = known if isinstance(known, list) else getattr(known, "messages", [])
    of_model = [one.tool_calls for one in messages if isinstance(one, AIMessage)]
    return [[_asked(call) for call in calls] for calls in of_model], _asked(request.tool_call)


def _asked(call: ToolCall) -> Asked:
    return Asked(call["name"], call["args"], call["id"] or "")


def _message(request: ToolCallRequest, told: Outcome) -> ToolMessage:
    call = request.tool_call
    status = "error" if told.status == "not_executed" else "success"
    return ToolMessage(told.text, tool_call_id=call["id"], name=call["name"], status=status)
