"""Detect the order to stop while the server still waits for open streams.

A server first stops accepting requests and then waits for open ones, but streams stay open for
ever. ASGI tells an application only afterwards, so this listens to the signal itself.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """The order to stop and its action; create it in the serving loop."""

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
