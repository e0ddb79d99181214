"""An id for each request: on its error page, in a response header, in its log lines.

People who report a failed page can name it. Ids of clients are ignored, as they could point to the
log lines of another person's request.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import iscoroutinefunction
from typing import Any, cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

HEADER = "X-Request-ID"

current: ContextVar[str] = ContextVar("request_id", default="")

Answer = Callable[[HttpRequest], HttpResponseBase]
AsyncAnswer = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def request_ids(get_response: Callable[..., Any]) -> Answer | AsyncAnswer:
    """Give every request its id; `request.request_id` for templates."""
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            with _name_request(request) as name:
                response = cast(HttpResponseBase, await get_response(request))
                response.headers[HEADER] = name
                return response

        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase:
        with _name_request(request) as name:
            response = cast(HttpResponseBase, get_response(request))
            response.headers[HEADER] = name
            return response

    return answer


@contextmanager
def _name_request(request: HttpRequest) -> Iterator[str]:
    name = secrets.token_hex(6)
    request.request_id = name  # type: ignore[attr-defined] # ours, for templates
    before = current.set(name)
    try:
        yield name
    finally:
        current.reset(before)
