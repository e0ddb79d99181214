"""The stream itself, as raw ASGI: behind Django's middleware each viewer would hold a thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from django.conf import settings

from agents.engine.threads import Pool
from agents.web.live.ending import Ending
from agents.web.live.hub import Hub, Viewer
from agents.web.live.visitors import NotAdmitted, Visitor, admit

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

PATH = "/live/"
PING = 15.0  # seconds of silence after which a proxy might think nobody is there
AWAY = 503  # nobody can say who may watch
MOST = 30  # streams of one person in this process
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy would buffer events
]


class Live:
    """The ASGI application for live updates."""

    def __init__(self) -> None:
        self._hub: Hub | None = None
        self._ending: Ending | None = None
        self._doors = Pool(2, "live-door")
        self._open: Counter[int] = Counter()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            return await _refuse(send, 405)
        ending = self._ending = self._ending or Ending()
        if ending.is_near:
            return await _refuse(send, 503)
        headers = dict(scope["headers"])
        cookie = headers.get(b"cookie", b"").decode("latin-1")
        asked = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        enter = partial(self._doors.run, partial(admit, cookie, asked))
        try:
            visitor = await enter()
        except NotAdmitted as no:
            return await _refuse(send, no.status)
        if self._open[visitor.user_id] >= MOST:
            return await _refuse(send, 429)
        seen = headers.get(b"last-event-id", b"").decode("latin-1")
        await self._serve(visitor, seen, enter, ending, receive, send)
        return None

    async def _serve(
        self,
        visitor: Visitor,
        seen: str,
        enter: Callable[[], Awaitable[Visitor]],
        ending: Ending,
        receive: Receive,
        send: Send,
    ) -> None:
        """Send what is new until the viewer leaves or loses access, or the process ends."""
        hub = self._hub = self._hub or Hub()
        viewer = Viewer(visitor.topics, seen)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        self._open[visitor.user_id] += 1
        hub.join(viewer)
        tasks = [
            asyncio.create_task(_pump(viewer, send)),
            asyncio.create_task(_gone(receive)),
            asyncio.create_task(_access_lost(visitor, enter)),
            asyncio.create_task(ending.come()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hub.leave(viewer)
            self._open[visitor.user_id] -= 1
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not tasks[1].done() or tasks[1].cancelled():
            # Where only the process ends, or nobody can say who may watch, the page stays and
            # opens its stream again by itself.
            is_lost = not tasks[2].cancelled() and tasks[2].result()
            last = b"event: ended\ndata: sign in again\n\n" if is_lost else b""
            await send({"type": "http.response.body", "body": last})


async def _pump(viewer: Viewer, send: Send) -> None:
    body = b"retry: 1000\n\n"
    while True:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        try:
            body = await asyncio.wait_for(viewer.message(), PING)
        except TimeoutError:
            body = b": still here\n\n"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _access_lost(visitor: Visitor, enter: Callable[[], Awaitable[Visitor]]) -> bool:
    """Return True once the visitor may no longer watch what they came for, False if none can say.

    The database is away then.
    """
    while True:
        await asyncio.sleep(settings.OPSCONSOLE_LIVE_RECHECK_SECONDS)
        try:
            if await enter() != visitor:
                return True
        except NotAdmitted as no:
            return no.status != AWAY


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


live = Live()
