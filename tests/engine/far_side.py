"""A mail system on another machine, which works on when the connection to it is cut."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer

import pytest
from django.utils import timezone

from agents.core.requests import Json
from agents.core.reviews import Touch
from agents.desks.refunds import mail
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall, DeskTool
from tests.engine.scene import in_thread
from tests.listening import Silent, listening

TOOLS = DESKS["refunds"].all_tools

NAME = "send_refund_email"
LONG = 5.0  # seconds; tools that write may take longer, and nothing else waits so long


@dataclass
class FarSide:
    """The calls that have reached it. It answers none, and works on them until `finish`."""

    port: int = 0
    calls: list[Json] = field(default_factory=list)
    on_call: Callable[[], object] = lambda: None

    def finish(self) -> None:
        """Send what it was asked to send."""
        for call in self.calls:
            mail.send_refund_mail(**call, at=timezone.now())


@contextmanager
def far_side() -> Iterator[FarSide]:
    """Serve one on a port of this machine within the block."""
    far = FarSide()

    class Handler(Silent):
        def do_POST(self) -> None:
            far.calls.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            in_thread(far.on_call)
            self.close_connection = True  # without an answer

    with listening(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        far.port = server.server_port
        yield far


def wait_no_time(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None
) -> list[float]:
    """Do something instead of waiting for as long as a tool may take; return how long that is."""
    waited, sleep = list[float](), asyncio.sleep

    async def wait(seconds: float) -> None:
        if seconds < LONG:
            await sleep(seconds)
        else:
            waited.append(seconds)
            in_thread(meanwhile)

    monkeypatch.setattr(asyncio, "sleep", wait)
    return waited


def letter_tool(port: int, touch: Touch) -> DeskTool:
    """Return the tool that sends refund letters, as one of the far side's."""

    def call(context: DeskCall, *, user_id: int, amount_minor: int, message: str) -> Json:
        asked = {
            "book_id": context.book,
            "customer_number": user_id,
            "amount_minor": amount_minor,
            "currency": "USD",
            "message": message,
            "key": context.key,
        }
        there = HTTPConnection("127.0.0.1", port)
        there.request("POST", "/", json.dumps(asked))
        return there.getresponse().read()

    return replace(TOOLS[NAME], touch=touch, function=call)
