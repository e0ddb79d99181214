"""Let an agent wait for an answer without holding a thread or a connection to the database.

One task looks for all who wait in this process. Whoever need not wait any longer is answered by
the endpoint itself, so that waiting changes no answer; the time that is up is no error.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl
from uuid import UUID

from django.db import DatabaseError
from django.db.models import Exists, OuterRef, Q, Value
from django.db.models.functions import Replace
from django.utils import timezone

from agents.api.endpoints import WAIT
from agents.engine.runtime.threads import Pool
from agents.models import AgentCall, Run, Step
from agents.operations import agent_of
from agents.web.live.app import Message, Receive, Send, wait_until_gone
from agents.web.live.shutdown import Ending

log = logging.getLogger(__name__)

LONGEST = 25.0  # seconds, less than proxies allow
LOOK = 0.2  # seconds between two looks
MOST = 100  # of one agent at a time; the next one is answered at once
_PATH = re.compile(r"/api/v1/(calls/(?P<call>[0-9]{1,18})|runs/(?P<run>[0-9a-f-]{36}))")


class Awaited(NamedTuple):
    """What somebody waits for: a call's answer, or a run's end."""

    kind: str
    key: Any


class Waiting:
    """The ASGI application before Django, for the requests that wait."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._pool = Pool(2, "api-wait")
        self._waiters: dict[Awaited, set[asyncio.Future[None]]] = {}
        self._of_agent: Counter[int] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._ending: Ending | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        asked = _asked(scope)
        if asked is None:
            return await self.app(scope, receive, send)
        awaited, token, seconds = asked
        first = await receive()
        agent = await self._pool.run(partial(_waiting_agent, awaited, token))
        if agent is not None and self._of_agent[agent] < MOST:
            self._of_agent[agent] += 1
            try:
                if await self._is_gone_while(awaited, seconds, receive):
                    return None
            finally:
                self._of_agent[agent] -= 1
        return await self.app(scope, _with_first(first, receive), send)

    async def _is_gone_while(self, awaited: Awaited, seconds: float, receive: Receive) -> bool:
        """Wait until it is settled or the time is up. Return whether the client has gone."""
        ending = self._ending = self._ending or Ending(self._release_all)
        done = asyncio.get_running_loop().create_future()
        gone = asyncio.ensure_future(wait_until_gone(receive))
        self._waiters.setdefault(awaited, set()).add(done)
        if ending.is_near:
            done.set_result(None)
        elif self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            await asyncio.wait([done, gone], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return gone.done()
        finally:
            gone.cancel()
            self._waiters[awaited].discard(done)
            if not self._waiters[awaited]:
                del self._waiters[awaited]

    async def _look(self) -> None:
        """Release those whose call or run is settled, as long as anybody waits."""
        while self._waiters:
            await asyncio.sleep(LOOK)
            try:
                settled = await self._pool.run(partial(_settled, list(self._waiters)))
            except DatabaseError:  # the endpoint says so itself
                log.exception("Whoever waits is answered, as it cannot be looked up")
                settled = set(self._waiters)
            for awaited in settled:
                self._release(awaited)

    def _release(self, awaited: Awaited) -> None:
        for done in self._waiters.get(awaited, ()):
            if not done.done():
                done.set_result(None)

    def _release_all(self) -> None:
        """Answer everybody as the process ends: with 202, so that they ask again."""
        for awaited in list(self._waiters):
            self._release(awaited)


def _asked(scope: Message) -> tuple[Awaited, str, float] | None:
    """Return what a request waits for, its key and for how long; None for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    if (found := _PATH.fullmatch(scope["path"])) is None:
        return None
    given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get(WAIT, "")
    if not (given.isascii() and given.isdigit()) or not int(given[:9]):
        return None
    sent = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    token = sent.partition(" ")[2]
    try:
        awaited = Awaited("run", UUID(found["run"])) if found["run"] else None
    except ValueError:
        return None
    return awaited or Awaited("call", int(found["call"])), token, min(float(given[:9]), LONGEST)


def _waiting_agent(awaited: Awaited, token: str) -> int | None:
    """Return the agent whose call or run this is; None where there is nothing to wait for."""
    agent = agent_of(token, at=timezone.now())
    if agent is None:
        return None
    rows: Any = AgentCall.objects if awaited.kind == "call" else Run.objects
    is_own = rows.filter(pk=awaited.key, agent=agent).exists()
    return agent.pk if is_own and not _settled([awaited]) else None


def _settled(awaited: Collection[Awaited]) -> set[Awaited]:
    """Return those whose call is answered or whose run has ended."""
    calls = [one.key for one in awaited if one.kind == "call"]
    runs = [one.key for one in awaited if one.kind == "run"]
    found = set[Awaited]()
    if calls:
        answer = Replace(OuterRef("step"), Value("/call"), Value("/answer"))
        answered = Exists(Step.objects.filter(run=OuterRef("run"), key=answer))
        over = AgentCall.objects.filter(Q(run__ended_at__isnull=False) | answered, pk__in=calls)
        found |= {Awaited("call", pk) for pk in over.values_list("pk", flat=True)}
    if runs:
        ended = Run.objects.filter(pk__in=runs, ended_at__isnull=False)
        found |= {Awaited("run", pk) for pk in ended.values_list("pk", flat=True)}
    return found


def _with_first(first: Message, receive: Receive) -> Receive:
    """Return a receiver that gives what was received already once more."""
    left = [first]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
