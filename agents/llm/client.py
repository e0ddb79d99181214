"""The open connections to model servers.

Each event loop has a pool for each address and key, so that a key is never sent to another address.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator
from functools import cache
from ssl import SSLContext
from typing import TypeAlias

import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient

from agents.llm.backend import Backend
from agents.llm.demo_model import DemoModel
from agents.llm.faults import refuse_faults

Place: TypeAlias = tuple[AbstractEventLoop, Backend]
_clients: dict[Place, tuple[AsyncOpenAI, AsyncGenerator[None, None]]] = {}


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
    hooks = {"response": [refuse_faults]}
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


async def _closing_with_the_loop(place: Place, client: AsyncOpenAI) -> AsyncGenerator[None, None]:
    """Close a client at the latest when its event loop ends.

    An ending loop closes its generators; it knows nothing of clients.
    """
    try:
        yield
    finally:
        _clients.pop(place, None)
        await client.close()
