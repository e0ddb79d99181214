"""Learn that the process is told to stop while its server still waits for open streams.

A server stops taking requests first and then waits for those under way, and a stream is under way
for ever. ASGI tells an application only after that, so the signal itself is heard.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """Whether the process is told to stop; made within the loop that serves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Event()
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._listen(number)

    @property
    def is_near(self) -> bool:
        return self._told.is_set()

    async def come(self) -> None:
        await self._told.wait()

    def _listen(self, number: signal.Signals) -> None:
        """Hear a signal before the server does, which puts back what was there when it ends."""
        served = signal.getsignal(number)
        # Without a handler of the server's own the signal ends the process at once.
        if not callable(served):
            return

        def heard(number: int, frame: FrameType | None) -> None:
            self._loop.call_soon_threadsafe(self._told.set)
            served(number, frame)

        signal.signal(number, heard)
