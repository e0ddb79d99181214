"""LangChain and LangGraph: a middleware that brings the desk's tools and puts their calls to it.

A call that waits longer than the session's patience interrupts the graph. Resuming it, with
whatever value, only wakes it: LangGraph runs the call again from its top, and the desk is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

from opsconsole_client.desk import Session
from opsconsole_client.keys import Asked
from opsconsole_client.outcomes import Outcome


class Supervision(AgentMiddleware[Any, Any, Any]):
    """`create_agent(model, middleware=[Supervision(session)])`.

    In a graph of your own: `ToolNode(supervision.tools, wrap_tool_call=supervision.wrap_tool_call,
    awrap_tool_call=supervision.awrap_tool_call)`.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.tools = [_tool(declared) for declared in session.tools()]
        self._names = {tool.name for tool in self.tools}

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        if request.tool_call["name"] not in self._names:
            return handler(request)
        place = _place(request, self._names)
        told = self._session.call_of(*place)
        while not told.is_settled and self._session.patience is not None:
            interrupt(told.told)
            told = self._session.call_of(*place)
        return _message(request, told)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        if request.tool_call["name"] not in self._names:
            return await handler(request)
        place = _place(request, self._names)
        told = await self._session.acall_of(*place)
        while not told.is_settled and self._session.patience is not None:
            interrupt(told.told)
            told = await self._session.acall_of(*place)
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


def _place(
    request: ToolCallRequest, names: set[str]
) -> tuple[Sequence[Asked], Sequence[Asked], int]:
    """Return the earlier calls of the conversation, those of the message, and which one it is."""
    state = request.state
    known = state.get("messages", []) if isinstance(state, Mapping) else state
    known = known if isinstance(known, list) else getattr(known, "messages", [])
    said = [
        [
            Asked(call["name"], call["args"], call["id"] or "")
            for call in message.tool_calls
            if call["name"] in names
        ]
        for message in known
        if isinstance(message, AIMessage)
    ]
    ids = [one.id for one in said[-1]] if said else []
    call = request.tool_call
    if not call["id"] or call["id"] not in ids:
        return [], [Asked(call["name"], call["args"], call["id"] or "")], 0
    return [one for message in said[:-1] for one in message], said[-1], ids.index(call["id"])


def _message(request: ToolCallRequest, told: Outcome) -> ToolMessage:
    call = request.tool_call
    status = "error" if told.status == "not_executed" else "success"
    return ToolMessage(told.text, tool_call_id=call["id"], name=call["name"], status=status)
