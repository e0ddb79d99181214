"""The common parts of streams to clients as raw ASGI, and their end.

A server stops accepting requests and then waits for open ones, and streams never end by themselves.
ASGI tells an application only afterwards, so this listens to the signal itself.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from types import FrameType
from typing import Any, TypeAlias

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
PING = 15.0  # seconds of silence, before a proxy or a page takes the connection for dead
PATIENCE = 60.0  # seconds for a page to take a message, so that idle readers free their memory
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy would buffer events
]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


async def wait_until_gone(receive: Receive) -> None:
    """Return once the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Ending:
    """The order to stop, and its action; create it in the serving loop."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._act = act
        self.is_near = False
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._listen(number)

    def _come(self) -> None:
        self.is_near = True
        self._act()

    def _listen(self, number: signal.Signals) -> None:
        """Handle a signal before the server, which restores earlier handlers when it ends."""
        served = signal.getsignal(number)
        # Without a handler of the server the signal ends the process at once.
        if not callable(served):
            return

        def answer(number: int, frame: FrameType | None) -> None:
            self._loop.call_soon_threadsafe(self._come)
            served(number, frame)

        signal.signal(number, answer)
