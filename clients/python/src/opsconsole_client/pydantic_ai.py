"""Pydantic AI: a toolset of the desk's tools.

A call that waits longer than the session's patience ends the run with DeferredToolRequests. An
approval only wakes it: the desk is asked again, and arguments that come with one are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import ApprovalRequired, DeferredToolResults, RunContext, ToolDefinition
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    ToolReturnPart,
)
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from opsconsole_client.desk import Session
from opsconsole_client.keys import Asked

_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


class SupervisedToolset(AbstractToolset[Any]):
    """`Agent(model, toolsets=[SupervisedToolset(session)])`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def id(self) -> str:
        return "opsconsole"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {
            declared["name"]: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=declared["name"],
                    description=declared["description"],
                    parameters_json_schema=declared["input_schema"],
                ),
                max_retries=0,
                args_validator=_ANY_OBJECT,  # the desk itself reports what does not fit
            )
            for declared in await self._session.atools()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        said = [
            [
                Asked(part.tool_name, part.args_as_dict(), part.tool_call_id)
                for part in message.tool_calls
            ]
            for message in ctx.messages
            if isinstance(message, ModelResponse)
        ]
        asked = Asked(name, tool_args, ctx.tool_call_id or "")
        told = await self._session.acall_said(said, asked)
        if not told.is_settled and self._session.patience is not None:
            raise ApprovalRequired(metadata=told.told)
        return told.told


def wake(messages: Sequence[ModelMessage]) -> DeferredToolResults:
    """Wake the calls of a saved conversation that have no answer: each asks the desk again."""
    answered = {
        part.tool_call_id
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart | RetryPromptPart)
    }
    last = next(one for one in reversed(messages) if isinstance(one, ModelResponse))
    left = [one.tool_call_id for one in last.tool_calls if one.tool_call_id not in answered]
    return DeferredToolResults(approvals=dict.fromkeys(left, True))
