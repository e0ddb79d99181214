"""The stream as raw ASGI: behind Django's middleware each viewer would occupy a thread.

The same getters that guard the pages decide who may watch what.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.http import HttpRequest
from django.utils import timezone

from agents.engine.runtime.database import Pool
from agents.live.hub import Hub, Viewer
from agents.live.topics import ActivityTopic, CardTopic, InboxTopic, RunTopic, Topic
from agents.people import sign_in as second_factor
from agents.people.sign_in import is_over
from agents.requests.queue import snoozed_by
from agents.shell import access
from agents.shell.access import NAME_IN_HTML, with_values
from agents.shell.pages import whole_number
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

PATH = "/live/"
_MOST = 30  # streams of one person in this process
COMING_BACK = 100  # streams a second that reconnect after this process ends


@dataclass(eq=False)
class _Stream:
    """An open page's stream, and the last message it is sent when it has to end."""

    visitor: "_Visitor"
    over: asyncio.Future[bytes] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def end(self, last: bytes = b"") -> None:
        if not self.over.done():
            self.over.set_result(last)


class Live:
    """The ASGI application for live updates."""

    def __init__(self) -> None:
        self._hub: Hub | None = None
        self._ending: Ending | None = None
        self._doors = Pool(2, "live-door")
        self._streams: dict[str, set[_Stream]] = {}  # by the session's cookie
        self._guards: dict[str, asyncio.Task[None]] = {}
        self._open: Counter[int] = Counter()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            return await _refuse(send, 405)
        ending = self._ending = self._ending or Ending(self._end_all)
        if ending.is_near:
            return await _refuse(send, 503)
        headers = dict(scope["headers"])
        cookie = headers.get(b"cookie", b"").decode("latin-1")
        address = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        try:
            visitor = await self._doors.run(partial(admit, cookie, address))
        except NotAdmitted as no:
            return await _refuse(send, no.status)
        if self._open[visitor.user_id] >= _MOST:
            return await _refuse(send, 429)
        seen = headers.get(b"last-event-id", b"").decode("latin-1")
        await self._serve(_Stream(visitor), cookie, seen, receive, send)
        return None

    async def _serve(
        self, stream: _Stream, cookie: str, seen: str, receive: Receive, send: Send
    ) -> None:
        """Send updates until the viewer leaves or loses access, or the process ends."""
        hub = self._hub = self._hub or Hub()
        viewer, user = Viewer(stream.visitor.topics, seen), stream.visitor.user_id
        self._open[user] += 1
        self._streams.setdefault(cookie, set()).add(stream)
        if cookie not in self._guards:
            self._guards[cookie] = asyncio.create_task(self._guard(cookie))
        tasks: list[asyncio.Future[Any]] = [
            asyncio.create_task(self._pump(hub, viewer, stream.visitor, send)),
            asyncio.create_task(wait_until_gone(receive)),
        ]
        try:
            await asyncio.wait([*tasks, stream.over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            hub.leave(viewer)
            self._leave(stream, cookie)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if stream.over.done():
            await send({"type": "http.response.body", "body": stream.over.result()})

    def _leave(self, stream: _Stream, cookie: str) -> None:
        self._open[stream.visitor.user_id] -= 1
        self._streams[cookie].discard(stream)
        if not self._streams[cookie]:
            del self._streams[cookie]
            self._guards.pop(cookie).cancel()

    async def _pump(self, hub: Hub, viewer: Viewer, visitor: "_Visitor", send: Send) -> None:
        """Send messages as they come; one not taken within PATIENCE ends the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        hub.join(viewer)
        body = b""
        while True:
            # Browsers apply `retry` only with data, and the number of streams changes.
            if NAME_IN_HTML.search(body):
                body = await self._doors.run(partial(_as_seen_by, visitor, body))
            body = b"retry: %d\n" % self._retry() + (body or b"\n")
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            try:
                async with asyncio.timeout(PING):
                    body = await viewer.message()
            except TimeoutError:
                body = b"event: here\ndata:\n\n"

    def _retry(self) -> int:
        """Return the milliseconds until a page reconnects, spread over time."""
        window = max(1.0, sum(self._open.values()) / COMING_BACK)
        return int(1000 * random.uniform(0.5, 0.5 + window))  # noqa: S311 - no secret

    async def _guard(self, cookie: str) -> None:
        """End the streams of a session that may no longer watch their topics."""
        while True:
            await asyncio.sleep(settings.OPSCONSOLE_LIVE_RECHECK_SECONDS)
            visitors = {stream.visitor for stream in self._streams[cookie]}
            last = b"event: ended\ndata: sign in again\n\n"
            try:
                gone = await self._doors.run(partial(lost_visitors, cookie, visitors))
            except DatabaseError:  # unknown: they reconnect once the database answers
                gone, last = visitors, b""
            for stream in self._streams[cookie]:
                if stream.visitor in gone:
                    stream.end(last)

    def _end_all(self) -> None:
        """End all streams as the process ends: pages reconnect by themselves."""
        for streams in self._streams.values():
            for stream in streams:
                stream.end()


def _as_seen_by(visitor: "_Visitor", body: bytes) -> bytes:
    """Return an update, which is rendered once for all viewers, with what this one may see."""
    return with_values(body, User(pk=visitor.user_id), repr(visitor.topics).encode())


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


live = Live()


# Who may watch what.


class NotAdmitted(Exception):
    """This visitor may not have the stream; `status` is the HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class _Visitor:
    """A signed-in user and the topics that they watch."""

    user_id: int
    topics: tuple[Topic, ...]


def admit(cookie: str, address: Mapping[str, str]) -> _Visitor:
    """Return the visitor and the topics they may watch. Raises NotAdmitted: 401, 404, 400, 503."""
    try:
        user = _user_of(cookie)
        if user is None:
            raise NotAdmitted(401)
        topics = tuple(_topics(user, address))
        if _hidden_topics(user, topics):
            raise NotAdmitted(404)
        return _Visitor(user.pk, topics)
    except DatabaseError:
        log.exception("The access of live viewers could not be checked")
        raise NotAdmitted(503) from None
    except ValueError:
        raise NotAdmitted(400) from None


def lost_visitors(cookie: str, visitors: Collection[_Visitor]) -> set[_Visitor]:
    """Return a session's visitors who may no longer watch their topics.

    At most six queries, however many pages the session has open. Raises DatabaseError.
    """
    user = _user_of(cookie)
    if user is None:
        return set(visitors)
    around = tuple(access.workspaces_of(user))  # as of now
    hidden = _hidden_topics(user, {topic for visitor in visitors for topic in visitor.topics})
    return {
        one
        for one in visitors
        if one.user_id != user.pk
        or not any(
            isinstance(topic, InboxTopic) and topic.workspaces == around for topic in one.topics
        )
        or hidden.intersection(one.topics)
    }


def _topics(user: User, address: Mapping[str, str]) -> Iterator[Topic]:
    """Yield the topics in an address. Raises ValueError for an invalid one."""
    workspaces = tuple(access.workspaces_of(user))
    has_snoozed = snoozed_by(user.pk, timezone.now()).exists()
    yield InboxTopic(workspaces, user.pk if has_snoozed else 0)
    if "run" in address:
        yield RunTopic(UUID(address["run"]))
    for text in (address[name] for name in ("card", "done") if name in address):
        if (pk := whole_number(text)) is None:
            raise ValueError(text)
        yield CardTopic(pk)
    if "activity" in address:
        yield ActivityTopic(workspaces)


def _hidden_topics(user: User, topics: Collection[Topic]) -> set[Topic]:
    """Return the topics of runs and requests that a person may not read."""
    runs = {topic.pk for topic in topics if isinstance(topic, RunTopic)}
    cards = {topic.pk for topic in topics if isinstance(topic, CardTopic)}
    seen = access.runs_of(user).filter(pk__in=runs).values_list("pk", flat=True)
    read = access.escalations_of(user).filter(pk__in=cards).values_list("pk", flat=True)
    return {
        *map(RunTopic, runs.difference(seen if runs else ())),
        *map(CardTopic, cards.difference(read if cards else ())),
    }


def _user_of(cookie: str) -> User | None:
    """Return the user of a session, by the same rules as for a page's request."""
    try:
        morsel = SimpleCookie(cookie).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    if morsel is None:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(morsel.value)
    user = get_user(request)
    if not isinstance(user, User) or is_over(request.session):
        return None
    return None if second_factor.lacks_factor(user, request.session) else user
