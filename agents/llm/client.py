"""The open connections to model servers, and what their refusals mean.

Each event loop has a pool for each address and key, so that a key is never sent to another address.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import re
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from functools import cache
from ssl import SSLContext
from typing import TypeAlias

import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient

from agents.llm.demo_model import DemoModel
from agents.llm.exchange import RATE_LIMITED, Backend, ModelFailed

_Place: TypeAlias = tuple[AbstractEventLoop, Backend]
_clients: dict[_Place, tuple[AsyncOpenAI, AsyncGenerator[None, None]]] = {}


async def client_of(server: Backend) -> AsyncOpenAI:
    """Return the running event loop's client for a server, opened on first use."""
    place = (asyncio.get_running_loop(), server)
    if place not in _clients:
        client = _open_client(server)
        end = _closing_with_the_loop(place, client)
        _clients[place] = client, end
        await anext(end)
    return _clients[place][0]


async def close() -> None:
    """Close the running event loop's clients. They open again when they are needed."""
    loop = asyncio.get_running_loop()
    for _, end in [held for (of, _), held in _clients.items() if of is loop]:
        await end.aclose()


def _open_client(server: Backend) -> AsyncOpenAI:
    hooks = {"response": [_refuse_faults]}
    http: httpx2.AsyncClient
    if server.demo:
        http = httpx2.AsyncClient(transport=DemoModel(), event_hooks=hooks, trust_env=False)
    else:
        # aiohttp, because httpx's own pool walks all its connections for every call.
        http = DefaultAioHttpClient(verify=_tls(), event_hooks=hooks, follow_redirects=False)
    # The engine retries, and records each attempt.
    return AsyncOpenAI(
        api_key=server.key, base_url=server.base_url, max_retries=0, http_client=http
    )


@cache
def _tls() -> SSLContext:
    """Return the one context for all clients: reading the certificates takes a while."""
    return httpx2.create_ssl_context()


async def _closing_with_the_loop(place: _Place, client: AsyncOpenAI) -> AsyncGenerator[None, None]:
    """Close a client at the latest when its event loop ends.

    An ending loop closes its generators; it knows nothing of clients.
    """
    try:
        yield
    finally:
        _clients.pop(place, None)
        await client.close()


# A refusal is read from its status and headers alone: its body may be endless or quote the key.

_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_RETRYABLE = (408, 409)  # and every 5xx, and 1xx, which is no answer
_ADVICE = {  # refusals that other settings would mend, for every run at once
    401: "refused the key (401). Set OPENAI_API_KEY to a valid one.",
    402: "wants to be paid first (402). Look at the account that OPENAI_API_KEY belongs to.",
    403: "does not let this key use the model (403). Check OPENAI_API_KEY and OPENAI_MODEL.",
    404: "knows no such model or address (404). Check OPENAI_MODEL and OPENAI_BASE_URL.",
}


async def _refuse_faults(response: httpx2.Response) -> None:
    """Raise ModelFailed unless the server accepted the call. A hook of the HTTP client."""
    if not response.is_success:
        raise fault(response.status_code, response.headers.get("retry-after"), at=datetime.now(UTC))


def fault(status: int, hint: str | None, *, at: datetime) -> ModelFailed:
    """Return the failure for an HTTP status; `hint` is its Retry-After header."""
    wait = retry_after(hint, at=at)
    if status == 429:
        message = "The model's server is limiting our rate (429)."
        return ModelFailed(RATE_LIMITED, message, retry=True, retry_after=wait, outage=True)
    if status >= 500 or status < 200 or status in _RETRYABLE:
        message = f"The model's server is in trouble ({status})."
        return ModelFailed("llm_error", message, retry=True, retry_after=wait, outage=True)
    if 300 <= status < 400:
        # Following a redirect would send people's words to an unconfigured address.
        message = f"redirects ({status}), which is not followed. Set OPENAI_BASE_URL to its end."
        return ModelFailed("llm_error", f"The model's server {message}", outage=True)
    advice = _ADVICE.get(status, f"refused the request ({status}).")
    return ModelFailed("llm_error", f"The model's server {advice}", outage=status in _ADVICE)


def retry_after(hint: str | None, *, at: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for; None if it says nothing usable."""
    hint = (hint or "").strip()
    if _SECONDS.fullmatch(hint):
        seconds = float(hint)
    else:
        try:
            date = email.utils.parsedate_to_datetime(hint)
        except (ValueError, OverflowError):
            return None
        # HTTP dates are GMT; an offset of -0000 leaves the zone unsaid.
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - at).total_seconds()
    return seconds if 0 <= seconds < math.inf else None
