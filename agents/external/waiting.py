"""Let an agent wait for an answer without holding a thread or a database connection.

One task polls for all waiting requests of this process. The endpoint itself answers once waiting
ends, so waiting changes no answer, and a timeout is no error. A process that ends answers 503, and
another one answers the retry. Streams of events wait in the same way for each event.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from enum import Enum
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl
from uuid import UUID

from django.db import DatabaseError
from django.db.models import Exists, OuterRef, Q, Value
from django.db.models.functions import Replace
from django.http import HttpResponse
from django.utils import timezone

from agents.core.requests import TAKE, EffectState
from agents.engine.journal import AWAIT
from agents.engine.runtime.database import Pool
from agents.external.endpoints import WAIT, News, event_number, news_of, problem
from agents.external.keys import agent_of
from agents.models import AgentCall, Run, Step
from agents.patterns.supervisor import ROUNDS
from agents.shell.streams import (
    HEADERS,
    PATIENCE,
    PING,
    Ending,
    Message,
    Receive,
    Send,
    wait_until_gone,
)

log = logging.getLogger(__name__)

LONGEST = 25.0  # seconds, less than proxies allow
LOOK = 0.2  # seconds between two looks
_EACH = 0.0005  # added per call waited for: polling a thousand takes 20 ms of a core
_MOST = 100  # per agent; further requests are answered at once
_PATH = re.compile(
    r"/api/v1/(calls/(?P<call>[0-9]{1,18})|runs/(?P<run>[0-9a-f-]{36})(?P<events>/events)?)"
)


class Awaited(NamedTuple):
    """What a request waits for: a call's answer, a run's end, or its next event."""

    kind: str
    key: Any
    seen: int = 0  # number of the run's events that are known


class _WaitRequest(NamedTuple):
    awaited: Awaited
    token: str
    seconds: float


class _Woken(Enum):
    """Why a request ends its wait."""

    SETTLED = "settled"
    LATE = "late"
    GONE = "gone"
    ENDING = "ending"


class Waiting:
    """The ASGI application before Django, for requests that wait."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._pool = Pool(2, "api-wait")
        self._waiters: dict[Awaited, set[asyncio.Future[_Woken]]] = {}
        self._of_agent: Counter[int] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._ending: Ending | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        request = _wait_request(scope)
        if request is None:
            return await self.app(scope, receive, send)
        first, woken = await receive(), _Woken.LATE
        try:
            agent = await self._pool.run(partial(_waiting_agent, request))
        except DatabaseError:  # the endpoint reports it
            agent = None
        if agent is not None:
            wait = partial(self.wait, request.awaited, request.seconds, receive)
            is_stream = request.awaited.kind == "events"
            stream = partial(self._stream, request, receive, send)
            woken = await self.hold(agent, stream if is_stream else wait)
        if woken is _Woken.ENDING:
            return await send_answer(send, ending_problem())
        if woken is not _Woken.GONE:
            await self.app(scope, with_first(first, receive), send)
        return None

    async def hold(self, agent: int, wait: Callable[[], Awaitable[_Woken]]) -> _Woken:
        """Wait for one of an agent's calls; return LATE at once if too many wait already."""
        if self._of_agent[agent] >= _MOST:
            return _Woken.LATE
        self._of_agent[agent] += 1
        try:
            return await wait()
        finally:
            self._of_agent[agent] -= 1

    async def wait(self, awaited: Awaited, seconds: float, receive: Receive) -> _Woken:
        """Wait until the call or run is settled, the time is up, the client has gone or we stop."""
        ending = self._ending = self._ending or Ending(self.release_all)
        if ending.is_near:
            return _Woken.ENDING
        done: asyncio.Future[_Woken] = asyncio.get_running_loop().create_future()
        gone = asyncio.ensure_future(wait_until_gone(receive))
        self._waiters.setdefault(awaited, set()).add(done)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            both: list[asyncio.Future[Any]] = [done, gone]
            await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return _Woken.GONE
            return done.result() if done.done() else _Woken.LATE
        finally:
            gone.cancel()
            self._waiters[awaited].discard(done)
            if not self._waiters[awaited]:
                del self._waiters[awaited]

    async def _stream(self, request: _WaitRequest, receive: Receive, send: Send) -> _Woken:
        """Send a session's events until its end, or until the key is revoked."""
        awaited, woken = request.awaited, _Woken.SETTLED
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        while woken in (_Woken.SETTLED, _Woken.LATE):
            news = await self._pool.run(partial(_news, awaited, request.token))
            if news is None:
                break
            body = news.body or b": here\n\n"
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if news.is_over:
                break
            awaited = awaited._replace(seen=news.seen)
            woken = await self.wait(awaited, PING, receive)
        if woken is not _Woken.GONE:
            await send({"type": "http.response.body", "body": b""})
        return _Woken.GONE  # everything is sent

    async def _look(self) -> None:
        """Release waiting requests whose call or run is settled."""
        while self._waiters:
            await asyncio.sleep(LOOK + len(self._waiters) * _EACH)
            try:
                settled = await self._pool.run(partial(_settled, list(self._waiters)))
            except DatabaseError:  # the endpoint reports it
                log.exception("Waiting callers are answered: their calls cannot be looked up")
                settled = set(self._waiters)
            for awaited in settled:
                self._release(awaited, _Woken.SETTLED)

    def _release(self, awaited: Awaited, why: _Woken) -> None:
        for done in self._waiters.get(awaited, ()):
            if not done.done():
                done.set_result(why)

    def release_all(self) -> None:
        """Release all waiting requests as the process ends."""
        for awaited in list(self._waiters):
            self._release(awaited, _Woken.ENDING)


def _wait_request(scope: Message) -> _WaitRequest | None:
    """Return what a request waits for; None for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    if (path := _PATH.fullmatch(scope["path"])) is None:
        return None
    given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get(WAIT, "")
    seconds = int(given[:9]) if given.isascii() and given.isdigit() else 0
    if not (seconds or path["events"]):
        return None
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    try:
        run = UUID(path["run"]) if path["run"] else None
    except ValueError:
        return None
    awaited = Awaited("run", run) if run else Awaited("call", int(path["call"]))
    if path["events"]:
        awaited = Awaited("events", run, event_number(headers.get(b"last-event-id", "")))
    token = headers.get(b"authorization", "").partition(" ")[2]
    return _WaitRequest(awaited, token, min(float(seconds), LONGEST))


def _waiting_agent(request: _WaitRequest) -> int | None:
    """Return the agent of this call or run; None if there is nothing to wait for."""
    agent = agent_of(request.token, at=timezone.now())
    if agent is None:
        return None
    kind, key, _ = request.awaited
    rows: Any = AgentCall.objects if kind == "call" else Run.objects
    is_own = rows.filter(pk=key, agent=agent).exists()
    return agent.pk if is_own and (kind == "events" or not _settled([request.awaited])) else None


def _news(awaited: Awaited, token: str) -> News | None:
    """Return the events after the known ones; None if the key is not valid."""
    agent = agent_of(token, at=timezone.now())
    return news_of(agent, awaited.key, after=awaited.seen) if agent else None


# For calls that their agent executes: states in which it has to take or report them.
_WITH_AGENT = Q(effect__state=EffectState.INTENDED, effect__report_due_at__isnull=False)
_PLACES = [
    f"/{label}{nth}"
    for label in (TAKE, "execute")
    for nth in ("", *(f"#{n}" for n in range(2, ROUNDS + 1)))
]


def _settled(awaited: Collection[Awaited]) -> set[Awaited]:
    """Return those whose call is answered or whose run has ended."""
    calls = [one.key for one in awaited if one.kind == "call"]
    runs = [one.key for one in awaited if one.kind == "run"]
    events = [one for one in awaited if one.kind == "events"]
    settled = set[Awaited]()
    if calls:
        answer = Replace(OuterRef("step"), Value("/call"), Value("/answer"))
        steps = Step.objects.filter(run=OuterRef("run"))
        places = [Replace(OuterRef("step"), Value("/call"), Value(place)) for place in _PLACES]
        left = steps.filter(Q(kind=AWAIT) | _WITH_AGENT, key__in=places, ended_at=None)
        # Its slot has gone on, and a person is asked about the outcome.
        unknown = steps.filter(effect__state=EffectState.UNKNOWN, key__in=places)
        is_answered = Q(Exists(steps.filter(key=answer)) & ~Exists(unknown))
        done = Q(run__ended_at__isnull=False) | is_answered | Exists(left)
        over = AgentCall.objects.filter(done, pk__in=calls)
        settled |= {Awaited("call", pk) for pk in over.values_list("pk", flat=True)}
    if runs:
        ended = Run.objects.filter(pk__in=runs, ended_at__isnull=False)
        settled |= {Awaited("run", pk) for pk in ended.values_list("pk", flat=True)}
    if events:
        rows = Run.objects.filter(pk__in={one.key for one in events})
        counts = dict(rows.values_list("pk", "event_count"))
        settled |= {one for one in events if counts.get(one.key, 0) > one.seen}
    return settled


def ending_problem() -> HttpResponse:
    """Return the answer to waiting requests as this process ends."""
    return problem(503, "ending", "The server is being restarted. Ask again.", again=1)


async def send_answer(send: Send, answer: HttpResponse) -> None:
    """Send an answer that did not come through Django."""
    headers = [(name.lower().encode(), text.encode()) for name, text in answer.items()]
    headers.append((b"content-length", b"%d" % len(answer.content)))
    start = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": answer.content})


def with_first(first: Message, receive: Receive) -> Receive:
    """Return a receiver that repeats a message that was already received."""
    left = [first]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
