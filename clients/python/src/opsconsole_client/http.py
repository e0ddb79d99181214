"""Requests to the console, without a thread or an event loop: one protocol, driven in two ways.

A flow yields a request, or seconds to wait, and is given the answer. Any request may be sent again:
opening, proposing and ending mean the same the second time.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import weakref
from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import httpx2

from opsconsole_client.outcomes import Json, Refused, Unreachable

T = TypeVar("T")
WAIT = 25  # seconds that the console holds a request at most
_LATER = (429, 502, 503, 504)  # the console is there again soon


class Sent(NamedTuple):
    method: str
    path: str
    body: Json = None
    key: str = ""  # of the call that it proposes


class Got(NamedTuple):
    """The answer to a request; without a status, none came."""

    status: int = 0
    body: Json = None
    retry_after: float | None = None


Flow: TypeAlias = Generator[Sent | float, Got | None, T]


def ask(sent: Sent, give_up: float) -> Flow[Got]:
    """Ask until the console answers. Raises Refused and, after `give_up` seconds, Unreachable."""
    end, pause = time.monotonic() + give_up, 0.25
    while True:
        got = (yield sent) or Got()
        if 200 <= got.status < 300:
            return got
        is_late = got.status in _LATER and (got.status != 429 or got.retry_after is not None)
        if got.status and not is_late:
            problem = got.body if isinstance(got.body, dict) else {}
            sentence = str(problem.get("detail", f"The address answers with {got.status}."))
            code = str(problem.get("code", "no_console"))
            raise Refused(got.status, code, sentence, problem.get("call") or 0)
        rest = max(pause, got.retry_after or 0)
        if time.monotonic() + rest > end:
            raise Unreachable(
                f"The console did not answer for {give_up:g} seconds. The outcome of the call is "
                "not known: ask again, under the same key and the same reference."
            )
        yield rest
        pause = min(pause * 2, 5)


class Line:
    """The connections to one console, for threads and for event loops."""

    def __init__(self, url: str, key: str, transport: Any) -> None:
        self._named: dict[str, Any] = {
            "base_url": f"{url.rstrip('/').removesuffix('/api/v1')}/api/v1/",
            "headers": {"Authorization": f"Bearer {key}", "Accept": "application/json"},
            "timeout": httpx2.Timeout(WAIT + 15, connect=10),
            "transport": transport,
        }
        self.turn = threading.Lock()
        self._client = httpx2.Client(**self._named)
        self.close = self._client.close
        # A connection belongs to the loop that opened it, and a program may have one after another.
        self._of_loops: weakref.WeakKeyDictionary[Any, tuple[httpx2.AsyncClient, asyncio.Lock]] = (
            weakref.WeakKeyDictionary()
        )

    def run(self, flow: Flow[T]) -> T:
        """Drive a flow in this thread."""
        answer: Got | None = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = None
            if isinstance(step, Sent):
                try:
                    answer = _got(self._client.request(**_request(step)))
                except httpx2.TransportError:
                    answer = Got()
            else:
                time.sleep(step)

    async def arun(self, flow: Flow[T]) -> T:
        """Drive a flow in this event loop."""
        client, answer = self._of_loop()[0], None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = None
            if isinstance(step, Sent):
                try:
                    answer = _got(await client.request(**_request(step)))
                except httpx2.TransportError:
                    answer = Got()
            else:
                await asyncio.sleep(step)

    async def aclose(self) -> None:
        if kept := self._of_loops.pop(asyncio.get_running_loop(), None):
            await kept[0].aclose()

    def aturn(self) -> asyncio.Lock:
        """Return the lock of this event loop: first come, first served."""
        return self._of_loop()[1]

    def _of_loop(self) -> tuple[httpx2.AsyncClient, asyncio.Lock]:
        loop = asyncio.get_running_loop()
        if loop not in self._of_loops:
            self._of_loops[loop] = httpx2.AsyncClient(**self._named), asyncio.Lock()
        return self._of_loops[loop]


def _request(sent: Sent) -> dict[str, Any]:
    body = {} if sent.body is None else {"json": sent.body}
    headers = {"Idempotency-Key": sent.key, **_trace()} if sent.key else {}
    return {"method": sent.method, "url": sent.path, "headers": headers, **body}


def _trace() -> dict[str, str]:
    """Return the program's current span, if it uses OpenTelemetry, so that its trace continues.

    In its own form, whatever propagators the program sets: the console reads no other.
    """
    found: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(found)
    return {name: value for name, value in found.items() if name == "traceparent"}


def _got(answer: httpx2.Response) -> Got:
    try:
        body = answer.json()
    except ValueError:
        # A proxy's page. Taken for a success it would claim an effect that did not happen.
        return Got(answer.status_code if answer.status_code >= 300 else 502)
    later = answer.headers.get("retry-after", "")
    return Got(answer.status_code, body, float(later) if later.isdigit() else None)
