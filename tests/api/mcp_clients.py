"""MCP clients of the official SDK, and a server of this process, whose desks a test may add to."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import httpx2
import uvicorn
from django.core.asgi import get_asgi_application
from django.utils import timezone
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from agents.core.requests import RunState
from agents.external import keys
from agents.external.mcp import Mcp
from agents.external.waiting import Waiting
from agents.models import ExternalAgent, Run
from opsconsole.intake import Intake
from tests.e2e.workers import until
from tests.engine.scene import Scene, go
from tests.ports import free_port
from tests.web.serving import is_up


@contextmanager
def mcp_site() -> Iterator[str]:
    """Serve MCP from a thread; yield the address."""
    waiting = Waiting(get_asgi_application())
    mcp, port = Mcp(waiting), free_port()
    app = Intake(mcp, most=100_000, seconds=5)
    server = uvicorn.Server(uvicorn.Config(app, port=port, lifespan="off", log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: is_up(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(60)
        for pool in (mcp._pool, waiting._pool):
            pool.close_connections()


class Answer(NamedTuple):
    """What a model reads of a call, and what its program does."""

    text: str
    told: dict[str, Any]
    is_error: bool


class Desk:
    """An agent with a key, at a desk that is served; each call is a client of its own."""

    def __init__(self, site: str, key: str, **headers: str) -> None:
        self.site, self.key = site, key
        self.headers = {"opsconsole-reference": "case-1", "opsconsole-wait": "0", **headers}

    def call(self, tool: str, *, limit: float = 60, mode: str = "auto", **args: Any) -> Answer:
        said = asyncio.run(self._with(lambda one: one.call_tool(tool, args), limit, mode))
        assert isinstance(said, CallToolResult)
        [text] = (one.text for one in said.content if one.type == "text")
        return Answer(text, said.structured_content or {}, said.is_error is True)

    def tools(self) -> dict[str, Any]:
        listed = asyncio.run(self._with(lambda one: one.list_tools(), 60, "auto"))
        return {one.name: one for one in listed.tools}

    async def _with(self, ask: Callable[[Client], Any], limit: float, mode: str) -> Any:
        headers = {"authorization": f"Bearer {self.key}", **self.headers}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(
                streamable_http_client(f"{self.site}/mcp", http_client=http),
                mode=mode,
                read_timeout_seconds=limit,
            ) as client,
        ):
            return await ask(client)

    def send(self, body: str | bytes, **headers: str) -> httpx2.Response:
        """Send a body as it is, without an SDK."""
        given = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        given |= {"accept": "application/json, text/event-stream", **headers}
        return httpx2.post(f"{self.site}/mcp", content=body, headers=given, timeout=60)


def make_desk_agent(scene: Scene, desk: str) -> tuple[ExternalAgent, str]:
    """Make an agent of Omar's at a desk, and a key."""
    at = timezone.now()
    agent = keys.set_agent(
        workspace=scene.workspace, name=f"{desk}-clerk", desk=desk, owner=scene.omar, at=at
    )
    return agent, keys.make_key(home=agent, lasts=timedelta(days=1), at=at)[1]


def drive(agent: ExternalAgent) -> Run:
    """Do what a worker does, until the agent's only session waits."""
    run = Run.objects.get(agent=agent)
    while run.state == RunState.QUEUED:
        run = go(run)
    return run
