"""A model server over HTTP that fails on demand, and otherwise answers like the demo model."""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

from django.test import override_settings
from django.utils import timezone

from agents import llm
from agents.core.requests import Json, RunState
from agents.engine.runtime.database import close_connections, in_database
from agents.engine.turns.advance import run_once
from agents.llm.demo_model import demo_reply
from agents.models import Endpoint, Run
from tests.engine.scene import claimable_runs
from tests.llm.asking import send, serving

LONG = 30.0  # seconds that a server hangs; nobody waits so long
Said = Callable[[str, Json], str]  # (role, inputs): the text of the answer


def as_demo(role: str, inputs: Json) -> str:
    """Return what the demo model says."""
    return demo_reply(role, inputs)


@dataclass
class FaultyServer:
    """How the server behaves now; `fault` is "" while it works."""

    fault: str = ""
    retry_after: str = "2"
    says: Said = as_demo
    seconds: float = 0.0  # seconds per answer
    calls: list[str] = field(default_factory=list)  # the fault of each call
    bodies: list[Json] = field(default_factory=list)

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.calls.append(self.fault)
        self.bodies.append(json.loads(body))
        fault, status = self.fault, self.fault.isdigit()
        if status:
            headers = {"retry_after": self.retry_after} if fault == "429" else {}
            send(handler, b"{}", status=int(fault), **headers)
        elif fault == "hang":
            time.sleep(LONG)
        elif fault == "drip":
            send(handler, b"", content_length="1000")
            while True:
                handler.wfile.write(b" ")
                time.sleep(0.05)
        elif fault == "reset":
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.connection.close()
        elif fault == "half":
            send(handler, self._answer(body)[:40])
        elif fault == "html":
            send(handler, b"<html>Please sign in</html>")
        elif fault == "empty":
            send(handler, b'{"choices": []}')
        else:
            time.sleep(self.seconds)
            send(handler, self._answer(body))

    def _answer(self, body: bytes) -> bytes:
        asked = json.loads(body)
        system, *_, last = asked["messages"]
        role = system["content"].partition("\n")[0].removeprefix("Role: ")
        text = self.says(role, json.loads(last["content"]))
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return json.dumps({"model": "stand-in", "choices": [choice]}).encode()


@contextmanager
def faulty_server(*, timeout: float = 0.3, **named: Any) -> Iterator[FaultyServer]:
    """Serve within the block, at the address in the settings."""
    server = FaultyServer(**named)

    with (
        serving(server.respond, with_body=True, threads_end=False) as (url, _),
        override_settings(
            OPENAI_BASE_URL=url, OPENAI_API_KEY="any", OPENAI_TIMEOUT_SECONDS=timeout
        ),
    ):
        yield server


def advance_all(runs: Iterable[Run]) -> list[Run]:
    """Advance the claimable runs concurrently, like a worker; return all of them."""
    asked = list(runs)

    async def once() -> None:
        try:
            due = set(await in_database(claimable_runs, 1000))
            await asyncio.gather(*(run_once(run.pk) for run in asked if run.pk in due))
        finally:
            await llm.close()
            close_connections()

    asyncio.run(once())
    found = {run.pk: run for run in Run.objects.filter(pk__in=[run.pk for run in asked])}
    return [found[run.pk] for run in asked]


def let_time_pass() -> None:
    """End every rest and wait by moving the times in the rows."""
    past = timezone.now() - timedelta(seconds=1)
    Endpoint.objects.filter(rests_until__isnull=False).update(rests_until=past)
    Run.objects.filter(state=RunState.QUEUED, wake_at__isnull=False).update(wake_at=past)
