"""A call that may come back after its deadline: the run goes on, and the late reply is recorded."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from django.db import transaction
from django.utils import timezone

from agents.core.json_forms import is_storable
from agents.core.requests import Json
from agents.engine import lease
from agents.engine.redaction import redact
from agents.engine.runtime.database import in_database
from agents.engine.runtime.threads import TOOL_THREADS
from agents.models import LostRun, Run
from agents.tools import Context, Tool

LATE = "call.late"
QUEUE_SECONDS = 60.0  # for which a call waits for a thread while other calls have them all
LONGEST = 2000  # characters of a late reply that are kept


@dataclass
class ToolCall:
    """One call of a tool: a coroutine is cancelled at the deadline, a thread cannot be."""

    tool: Tool
    context: Context
    args: Json
    run: Run
    kept_at: float  # when the run was ours, by the monotonic clock
    never_began: bool = False  # no thread had been free for it, and none will take it now
    _lock: Lock = field(default_factory=Lock)
    _given_up: bool = False

    async def result(self, limit: asyncio.Timeout, seconds: float) -> Json:
        """Return what the tool returns, within `seconds` from when a thread takes the call."""
        if inspect.iscoroutinefunction(self.tool.call):
            if self._may_be_lost():
                await in_database(self._keep_run)
            return await self.tool.call(self.context, **self.args)
        loop = asyncio.get_running_loop()

        def begin() -> None:
            with suppress(RuntimeError):  # it was given up just now
                limit.reschedule(loop.time() + seconds)

        def work() -> Json:
            loop.call_soon_threadsafe(begin)
            return self._in_thread()

        limit.reschedule(loop.time() + QUEUE_SECONDS)
        reply = TOOL_THREADS.submit(work)
        try:
            return await asyncio.wrap_future(reply)
        except asyncio.CancelledError:
            self.never_began = reply.cancel()
            if not reply.done() or self.never_began:
                raise
            return reply.result()  # it came in time; the event loop was late

    def give_up(self) -> None:
        """Go on without the reply; if there is one yet, it is written down and not used."""
        with self._lock:
            self._given_up = True

    def _may_be_lost(self) -> bool:
        """Tell whether others may soon take the run over, as where this process stood still."""
        kept_for = lease.length().total_seconds() / 2
        return self.tool.writes and time.monotonic() - self.kept_at > kept_for

    def _keep_run(self) -> None:
        """Renew the run's lease. Raises LostRun: who took it over settles this call."""
        if not Run.renew(self.run.lease_owner, lease.length(), [self.run.pk]):
            raise LostRun(self.run.pk)

    def _in_thread(self) -> Json:
        if self._may_be_lost():
            self._keep_run()
        started = time.monotonic()
        try:
            reply = self.tool.call(self.context, **self.args)
        except Exception as error:
            name = type(error).__name__
            self._note(lambda: f"raised {name}", time.monotonic() - started)
            raise
        self._note(lambda: self._storable_text(reply), time.monotonic() - started)
        return reply

    def _storable_text(self, reply: Json) -> str:
        if not is_storable(reply):
            return "what cannot be kept"
        # Masked before it is cut: half a card number would not be recognised.
        return str(redact(json.dumps(reply), self.context.limits))[:LONGEST]

    def _note(self, said: Callable[[], str], seconds: float) -> None:
        """Say in the record that a reply came too late; the run may have ended long ago."""
        with self._lock:
            if not self._given_up:
                return
        facts = {"key": self.context.key, "tool": self.tool.name, "said": said()}
        with transaction.atomic():
            run = Run.objects.select_for_update().get(pk=self.run.pk)
            if run.erased_at:
                facts["said"] = ""  # the run was erased meanwhile
            run.say(LATE, at=timezone.now(), facts={**facts, "after_ms": round(seconds * 1000)})
