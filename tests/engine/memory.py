"""An in-memory journal for the loop: scripted replies, and a crash at any write."""

from collections.abc import Callable
from typing import Any

from agents.core.json_forms import as_stored, fingerprint
from agents.core.requests import Diverged, Escalate, Json, Reply, Request
from agents.engine.journal import WaitsForPerson


class Crash(BaseException):
    """The simulated end of the process."""


class MemoryWorld:
    """Keeps steps in a dict. `perform` answers requests, with one effect per key."""

    def __init__(self, perform: Callable[[str, Request], Json]) -> None:
        self.perform = perform
        self.steps: dict[str, tuple[str, Reply | None]] = {}
        self.waiting: dict[str, Escalate] = {}
        self.done: dict[str, Json] = {}  # external effects by key
        self.calls: list[str] = []
        self.writes = 0
        self.crash_at: int | None = None

    def recall(self, key: str, request: Request) -> Reply | None:
        if key not in self.steps:
            return None
        recorded, reply = self.steps[key]
        if recorded != fingerprint(request):
            raise Diverged(key)
        if reply is None and key in self.waiting:
            raise WaitsForPerson(key)
        return reply

    async def do(self, key: str, request: Request) -> Reply:
        self._write(key, request, None)
        if isinstance(request, Escalate):
            self.waiting[key] = request
            raise WaitsForPerson(key)
        self.calls.append(key)
        if key not in self.done:
            self.done[key] = self.perform(key, request)
        said = self.done[key]
        reply = said if isinstance(said, Reply) else Reply(as_stored(said))
        self._write(key, request, reply)
        return reply

    async def keep(self) -> None:
        """Do nothing, as writes take effect at once."""

    def decide(self, **decision: Any) -> None:
        """Answer the oldest question that waits for a person."""
        key = next(iter(self.waiting))
        request = self.waiting.pop(key)
        value = {"granted_minor": None, "revised": False, "comment": "", "key": key} | decision
        self._write(key, request, Reply(value))

    def _write(self, key: str, request: Request, reply: Reply | None) -> None:
        self.writes += 1
        if self.writes == self.crash_at:
            raise Crash
        self.steps[key] = (fingerprint(request), reply)
