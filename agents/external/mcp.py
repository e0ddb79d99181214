"""A desk's tools over MCP: streamable HTTP, stateless, each call reviewed by the policy.

The key names the agent; headers name session and subject. A call is held for a few seconds, as many
clients give up after five. Then the answer is what is known, and the agent repeats the call to ask
again.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from django.db import OperationalError
from django.utils import timezone
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations
from pydantic import ValidationError

from agents.core.json_forms import BadJson, parse
from agents.core.requests import Json
from agents.engine.runtime.database import Pool
from agents.engine.tracing import PARENT
from agents.external.calls import ProposedCall
from agents.external.content_calls import (
    Standing,
    as_data,
    ask_content,
    propose_again,
    propose_content,
    reference_of,
    standing_of,
)
from agents.external.endpoints import place_of, tools_of
from agents.external.keys import agent_of
from agents.external.schemas import (
    NO_KEY,
    AskPerson,
    CallAgain,
    OpenRun,
    ProposeCall,
    busy_problem,
    problem,
)
from agents.external.sessions import open_session
from agents.external.waiting import (
    LONGEST,
    Awaited,
    Waiting,
    ending_problem,
    send_answer,
    with_first,
)
from agents.models import AgentCall, ExternalAgent, Run
from agents.patterns.external import NOT_EXECUTED, UNKNOWN
from agents.sdk.desk_tools import CONSOLE
from agents.shell.refusal import Refused
from agents.shell.streams import Ending, Message, Receive, Send

PATH = "/mcp"
HOLD = 4.0  # seconds, if the client sets no limit
_GOAL = "Calls of an MCP client."
_HEADERS = ("reference", "subject", "goal", "wait")  # each as Opsconsole-…
_CALLER = "opsconsole.caller"  # in the scope of a request
_OWN: dict[str, tuple[str, type[AskPerson] | type[CallAgain]]] = {
    "again": (
        "Propose an answered call again, by its number. If it was executed, a person is asked.",
        CallAgain,
    ),
    "ask_a_person": ("Ask a person. Nothing is executed; call again for the answer.", AskPerson),
}
_INSTRUCTIONS = (
    "Each call is ruled on by a policy and may wait for a person, who may change it. An answer "
    "that begins with NOT DONE or OUTCOME NOT KNOWN YET is no result. The same call with the same "
    "arguments, made later, is that call: it returns its outcome, and is executed once."
)
# The headers that can change a refusal's cause; only the person who set up the client can.
_HEADER_OF = {
    **dict.fromkeys(("no_subject", "unknown_subject"), "Opsconsole-Subject"),
    **dict.fromkeys(("bad_reference", "reference_reused"), "Opsconsole-Reference"),
    **dict.fromkeys(("session_ended",), "Opsconsole-Reference"),
    **dict.fromkeys(("bad_goal", "no_goal"), "Opsconsole-Goal"),
    "unauthorized": "Authorization",
}
_BY_SETTINGS = (
    "No call changes that. The person who set up this client can, in its header {header}."
)


class _Caller(NamedTuple):
    """The sender of a request, from its headers alone, and how to learn that they have gone."""

    token: str
    headers: dict[str, str]  # of the console, by what follows Opsconsole-
    wait: float
    traceparent: str
    receive: Receive


class _Refusal(NamedTuple):
    """Why nothing was proposed or is known, as a code and a sentence."""

    reason: str
    sentence: str
    status: str = NOT_EXECUTED


class Mcp:
    """The ASGI application for requests of MCP clients, before all others."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self._pool = Pool(4, "mcp")
        self._task: asyncio.Task[None] | None = None
        self._ending: Ending | None = None
        self._open = 0
        self._server: Server[Any] = Server(
            "opsconsole",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=lambda name: None,  # no argument is mirrored in a header
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            return await self.waiting(scope, receive, send)
        ending = self._ending = self._ending or Ending(self._end)
        if ending.is_near:
            return await send_answer(send, ending_problem())
        self._open += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self._open -= 1
            if ending.is_near:
                self._end()

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if scope["method"] != "POST":  # stateless: there is no stream to open or end
            answer = problem(405, "bad_request", "Only POST is answered here.")
            answer["Allow"] = "POST"
            return await send_answer(send, answer)
        if b"origin" in headers:
            refusal = "Pages in a browser are not answered here."
            return await send_answer(send, problem(403, "bad_request", refusal))
        body, is_whole = b"", False
        while not is_whole:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            is_whole = not message.get("more_body", False)
        try:
            caller = _caller(headers, receive)
        except UnicodeDecodeError:
            return await send_answer(send, problem(400, "bad_request", "A header is not UTF-8."))
        try:
            if await self._pool.run(partial(agent_of, caller.token, at=timezone.now())) is None:
                return await send_answer(send, problem(401, "unauthorized", NO_KEY))
            parse(body.decode())
        except OperationalError as no:
            return await send_answer(send, busy_problem(no))
        except (BadJson, UnicodeDecodeError) as no:
            return await send_answer(send, problem(400, "bad_json", f"It cannot be read: {no}."))
        manager = await self._started()
        whole = {"type": "http.request", "body": body, "more_body": False}
        again = with_first(whole, receive)
        await manager.handle_request({**scope, _CALLER: caller}, again, send)
        return None

    async def _started(self) -> StreamableHTTPSessionManager:
        """Return the SDK's manager. Its tasks run in our own task."""
        if self._task is None or self._task.done():
            self._over, self._ready = asyncio.Event(), asyncio.Event()
            self._manager = StreamableHTTPSessionManager(
                self._server, stateless=True, json_response=True
            )
            self._task = asyncio.create_task(self._run(self._manager))
        await self._ready.wait()
        return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager) -> None:
        async with manager.run():
            self._ready.set()
            await self._over.wait()

    def _end(self) -> None:
        """Answer all held calls, and end the manager after the last one."""
        self.waiting.release_all()  # the server may not know of the stop yet
        if self._task is not None and not self._open:
            self._over.set()

    async def _list_tools(self, context: Any, _: Any) -> ListToolsResult:
        caller: _Caller = context.request.scope[_CALLER]
        return ListToolsResult(tools=await self._pool.run(partial(_tools, caller.token)))

    async def _call_tool(self, context: Any, request: Any) -> CallToolResult:
        caller: _Caller = context.request.scope[_CALLER]
        work = partial(_propose, caller, request.name, request.arguments or {})
        standing = await self._tried(work)
        if isinstance(standing, Standing) and not standing.is_answered:
            row = standing.call.row
            awaited = Awaited("call", row.pk)
            if self._ending is None or not self._ending.is_near:
                wait = partial(self.waiting.wait, awaited, caller.wait, caller.receive)
                await self.waiting.hold(row.agent_id, wait)
            standing = await self._tried(partial(_look_again, caller, standing.call))
        if isinstance(standing, _Refusal):
            text = f"{standing.sentence} ({standing.reason})"
            return _result(text, {**standing._asdict(), "message": text}, is_error=True)
        outcome = as_data(standing)
        # Pending calls are answers, not errors: an error makes clients raise, or a model try
        # otherwise.
        is_error = outcome["status"] == NOT_EXECUTED
        return _result(outcome["message"], outcome | place_of(standing.call), is_error=is_error)

    async def _tried(self, work: Callable[[], Standing]) -> Standing | _Refusal:
        """Return the state of a call, or why nothing was proposed."""
        try:
            return await self._pool.run(work)
        except Refused as no:
            header = _HEADER_OF.get(no.code)
            advice = _BY_SETTINGS.format(header=header) if header else ""
            return _Refusal(no.code, f"{no} {advice}".strip())
        except (AgentCall.DoesNotExist, Run.DoesNotExist):
            return _Refusal("not_found", "This session has no such call. Nothing was proposed.")
        except ValidationError as no:
            first = no.errors()[0]  # its input is not quoted: it may hold personal data
            where = ".".join(map(str, first["loc"])) or "the call"
            return _Refusal("invalid", f"{where}: {first['msg']}. Nothing was proposed.")
        except OperationalError:
            return _Refusal(
                "busy", "The database is busy. Call again with the same arguments.", UNKNOWN
            )


def _result(text: str, data: dict[str, Json], *, is_error: bool) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=text)], structured_content=data, is_error=is_error
    )


def _caller(headers: dict[bytes, bytes], receive: Receive) -> _Caller:
    """Read who sends a request. Raises UnicodeDecodeError."""
    own = {name: headers.get(f"opsconsole-{name}".encode(), b"").decode() for name in _HEADERS}
    wait = own.pop("wait")
    seconds = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 4 else HOLD
    scheme, _, token = headers.get(b"authorization", b"").decode().partition(" ")
    is_bearer = scheme.lower() == "bearer"
    return _Caller(
        token=token if is_bearer else "",
        headers=own,
        wait=min(seconds, LONGEST),
        traceparent=headers.get(PARENT.encode(), b"").decode(),
        receive=receive,
    )


def _known_agent(token: str) -> ExternalAgent:
    """Return the agent of this key. Raises Refused if it was revoked meanwhile."""
    if agent := agent_of(token, at=timezone.now()):
        return agent
    raise Refused("unauthorized", "The key of this client is not valid any more.")


def _tools(token: str) -> list[Tool]:
    agent = agent_of(token, at=timezone.now())
    of_desk = [
        Tool(
            name=one["name"],
            description=one["description"],
            input_schema=one["input_schema"],
            annotations=ToolAnnotations(read_only_hint=not one["writes"]),
        )
        for one in (tools_of(agent) if agent else ())
        if one["executed_by"] == CONSOLE
    ]
    own = [
        Tool(name=name, description=text, input_schema=_schema_of(form))
        for name, (text, form) in _OWN.items()
    ]
    return of_desk + own


def _schema_of(form: type[AskPerson] | type[CallAgain]) -> dict[str, Json]:
    """Return a form's schema without the HTTP API's description."""
    return {name: part for name, part in form.json_schema().items() if name != "description"}


def _propose(caller: _Caller, name: str, args: dict[str, Json]) -> Standing:
    """Propose a call in its caller's session; the first call opens it."""
    agent, at = _known_agent(caller.token), timezone.now()
    opened = dict(caller.headers)
    opened["reference"] = opened["reference"] or reference_of(agent, opened["subject"])
    opened["goal"] = opened["goal"] or _GOAL
    OpenRun.model_validate(opened)
    form: AskPerson | CallAgain | ProposeCall
    if name in _OWN:
        form = _OWN[name][1].model_validate(args)
    else:
        form = ProposeCall.model_validate({"tool": name, "arguments": args})
    run = open_session(agent=agent, claims={"framework": "MCP"}, at=at, **opened)
    own: dict[str, Any] = {"agent": agent, "run": run, "at": at}
    if isinstance(form, CallAgain):
        call = propose_again(**own, call_id=form.call)
    elif isinstance(form, AskPerson):
        call = ask_content(**own, **form.dict())
    else:
        own |= {"name": form.tool, "args": form.arguments}
        call = propose_content(**own, traceparent=caller.traceparent)
    return standing_of(call, agent)


def _look_again(caller: _Caller, call: ProposedCall) -> Standing:
    return standing_of(call, _known_agent(caller.token))
