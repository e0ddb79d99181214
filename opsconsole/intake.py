"""Limits on what a client sends before Django sees it, and on how slowly it reads.

Django writes a whole body to a file before checking its length, and waits for it without limit:
without bounds here, anyone could fill the disk or hold a connection endlessly. So could a client
that requests a long file and reads nothing.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from io import BytesIO
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]  # servers and Django differ in theirs

LONGEST_ADDRESS = 8 * 1024  # bytes
LONGEST_HEADERS = 32 * 1024  # bytes, all together
PROGRAMS = (b"api/", b"mcp")  # beginnings of addresses whose answers programs read
WORDS = {  # with the API's code
    408: ("too_slow", "It took too long to send."),
    413: ("too_large", "That is more than is taken at once."),
    414: ("too_large", "The address is too long."),
    431: ("too_large", "The headers are too long."),
}


def unfit(scope: Message) -> tuple[str, str] | None:
    """Return why a request by plain HTTP or to another host is refused, as in WORDS, or None.

    A page is redirected to HTTPS; a program would send its key in the clear again each time.
    """
    request = ASGIRequest(scope, BytesIO())
    if settings.SECURE_SSL_REDIRECT and not request.is_secure():
        return "https_only", "Only HTTPS is answered here. Revoke a key that was sent in the clear."
    try:
        request.get_host()
    except DisallowedHost:
        return "bad_host", "OPSCONSOLE_ALLOWED_HOSTS does not name this host."
    return None


class _Refused(Exception):
    """The body was not read to its end."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Intake:
    """An application whose requests have at most `most` bytes, read within `seconds`.

    The client must take each part of a response within `part_seconds`, or counts as gone.
    """

    def __init__(self, app: App, *, most: int, seconds: float, part_seconds: float = 30.0) -> None:
        self.app = app
        self.most = most
        self.seconds = seconds
        self.part_seconds = part_seconds

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            self._check(scope)
            if _is_program(scope) and (refusal := unfit(scope)):
                return await refuse(scope, send, 403, refusal)
            await self.app(scope, self._limit_receive(receive), self._patient(send))
        except _Refused as no:
            # Nothing was answered yet, as Django answers only after the whole body.
            await refuse(scope, send, no.status, WORDS[no.status])

    def _check(self, scope: Message) -> None:
        """Refuse a request that is too long by its headers alone. Raises _Refused."""
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            raise _Refused(414)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LONGEST_HEADERS:
            raise _Refused(431)
        if _declared_length(scope) > self.most:
            raise _Refused(413)

    def _patient(self, send: Send) -> Send:
        async def patient(message: Message) -> None:
            try:
                async with asyncio.timeout(self.part_seconds):
                    await send(message)
            except TimeoutError:  # Django knows a gone client by this, and cleans up after it
                raise asyncio.CancelledError from None

        return patient

    def _limit_receive(self, receive: Receive) -> Receive:
        ends_at = asyncio.get_running_loop().time() + self.seconds
        left, whole = self.most, False

        async def receive_limited() -> Message:
            nonlocal left, whole
            if whole:  # from here on it only tells that the client has gone
                return await receive()
            try:
                async with asyncio.timeout_at(ends_at):
                    message = await receive()
            except TimeoutError:
                raise _Refused(408) from None
            left -= len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if left < 0:
                raise _Refused(413)
            return message

        return receive_limited


def _is_program(scope: Message) -> bool:
    return unquote_to_bytes(scope["raw_path"]).lstrip(b"/").startswith(PROGRAMS)


def _declared_length(scope: Message) -> int:
    """Return the length that the client announced, by default 0."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


async def refuse(scope: Message, send: Send, status: int, refusal: tuple[str, str]) -> None:
    """Answer with a code and a sentence, to programs as the API does behind Django."""
    code, words = refusal
    kind, body = b"text/plain; charset=utf-8", f"{words}\n"
    if _is_program(scope):
        named = {"type": f"urn:opsconsole:{code}", "title": code.replace("_", " ")}
        body = json.dumps({**named, "status": status, "code": code, "detail": words})
        kind = b"application/problem+json"
    headers = [
        (b"content-type", kind),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),  # what is still to come is not read
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
