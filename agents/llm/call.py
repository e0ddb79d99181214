"""Ask a model once, under one deadline and one size cap, and price its answer.

Only what asks imports this file: its client takes longer to import than a whole command runs.
"""

import asyncio
import json
import re
import time
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from ssl import SSLContext
from typing import Any, TypeAlias

import aiohttp
import httpx2
import openai
from django.conf import settings
from openai import AsyncOpenAI, DefaultAioHttpClient

from agents.core.requests import Json
from agents.llm import model_of
from agents.llm.demo_model import DemoModel
from agents.llm.prompts import prompt
from agents.llm.reply import (
    LONGEST_BEGIN,
    MAX_CALLS,
    RESPONSES,
    bad_response,
    chunks_in,
    completion_of,
    is_stream,
    join,
    join_events,
    read_reply,
    reworded,
)
from agents.llm.servers import Backend, ModelAnswer, ModelFailed, Question, backend, fault
from agents.llm.tool_calls import PROBE, envelop, offer_tools, read_proposals, read_text, unpack

MAX_BODY = 1024 * 1024  # bytes, unpacked
_MAX_STREAM = 16 * MAX_BODY  # a stream has a few hundred bytes for each token
SILENCE = 30.0  # seconds between two parts of a stream
TOLD_EVERY = 1.0  # seconds
_CHARACTERS_A_TOKEN = 4  # estimate, if a server does not count


async def ask(question: Question, *, timeout: float) -> ModelAnswer:
    """Return a model's answer, within `timeout` seconds in all. Raises ModelFailed.

    One attempt: the caller decides whether to retry. While a server streams, a silence ends it.
    """
    server = backend()
    request = request_for(question, server)
    try:
        async with asyncio.timeout(timeout):
            body = await _fetch(await client_of(server), request, timeout, question.on_progress)
    except TimeoutError:
        message = f"The model did not answer within {timeout:g} s."
        raise ModelFailed("llm_timeout", message, retry=True, outage=True) from None
    except httpx2.DecodingError:
        message = "The model's answer is packed in a way that cannot be unpacked."
        raise bad_response(message) from None
    except (openai.APIConnectionError, httpx2.RequestError) as error:
        message = f"The connection to the model failed ({type(error).__name__})."
        raise ModelFailed("llm_timeout", message, retry=True, outage=True) from None
    except aiohttp.ClientError:  # not HTTP at all, which the client does not translate
        message = "The model's server does not speak HTTP. Check OPENAI_BASE_URL."
        raise bad_response(message) from None
    by_responses = settings.OPENAI_API == RESPONSES
    if is_stream(body[:LONGEST_BEGIN]):
        body = join_events(body) if by_responses else join(body)
        _check_size(body, MAX_BODY)
    if by_responses and not server.demo:
        body = completion_of(body)
    return _answer(body, request, question, server.demo)


def request_for(question: Question, server: Backend) -> dict[str, Json]:
    model = "demo" if server.demo else model_of(question)
    if question.is_probe:
        return {"model": model, **PROBE}
    if question.offer:
        return {"model": model, **offer_tools(question, question.offer)}
    request: dict[str, Json] = {
        "model": model,
        "messages": [
            {"role": "system", "content": prompt(question.role, at_desk="desk" in question.inputs)},
            {"role": "user", "content": json.dumps(question.inputs, ensure_ascii=False)},
        ],
    }
    if question.as_json:
        request["response_format"] = _format(question)
    return request


def _format(question: Question) -> Json:
    """Return the response format: a schema if the server is known to accept one."""
    wanted = settings.OPENAI_STRUCTURED_OUTPUT
    if wanted == "auto":
        wanted = "json_object" if settings.OPENAI_BASE_URL else "json_schema"
    if wanted == "json_object" or question.schema is None:
        return {"type": "json_object"}
    schema = {"name": question.role, "schema": envelop(question.schema), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


async def _fetch(
    client: AsyncOpenAI, request: dict[str, Json], timeout: float, progress: Any
) -> bytes:
    """Return the raw body of a successful call, as the package would parse anything."""
    more: dict[str, Json] = {}
    create: Any = client.chat.completions.with_streaming_response.create
    named: dict[str, Json] = {"messages": ()}
    if settings.OPENAI_STREAM:
        more = {"stream": True, "stream_options": {"include_usage": True}}
    if settings.OPENAI_API == RESPONSES and request["model"] != "demo":
        request, create = reworded(request), client.responses.with_streaming_response.create
        named = {}
        more.pop("stream_options", None)
    body, newest = bytearray(), time.monotonic()
    # Passed as an extra, because the package inspects each named part of a body, which takes as
    # long as the rest of a call.
    named |= {"model": request["model"], "extra_body": request, **more}
    async with create(**named, timeout=timeout) as response:
        parts = aiter(response.iter_bytes())
        while True:
            # Until the first part comes, a server reads the question.
            streams = is_stream(body[:LONGEST_BEGIN])
            part = await _next_part(parts, most=SILENCE if streams else None)
            if part is None:
                break
            body += part
            if progress and streams and time.monotonic() - newest >= TOLD_EVERY:
                newest = time.monotonic()
                await progress(chunks_in(body))
            _check_size(body, _MAX_STREAM if streams else MAX_BODY)
    return bytes(body)


def _check_size(body: bytes | bytearray, most: int) -> None:
    if len(body) > most:
        raise bad_response(f"The model's answer is larger than {most} bytes.")


async def _next_part(parts: AsyncIterator[bytes], *, most: float | None) -> bytes | None:
    """Return the next part of a body, None at its end. Raises ModelFailed after a silence."""
    try:
        async with asyncio.timeout(most):
            return await anext(parts, None)
    except TimeoutError:
        message = f"The model fell silent for {most:g} s while it wrote."
        raise ModelFailed("llm_timeout", message, retry=True, outage=True) from None


def _answer(body: bytes, request: dict[str, Json], question: Question, demo: bool) -> ModelAnswer:
    reply = read_reply(body)
    model = reply.model or request["model"]
    calls = sum(map(len, reply.tool_calls))
    estimate = _tokens_in_text(_length(request)), _tokens_in_text(len(reply.text) + calls)
    tokens_in, tokens_out = reply.tokens or estimate
    cost = None
    if reply.tokens:
        cost = cost_micro_usd(model, tokens_in=tokens_in, tokens_out=tokens_out)
    is_strict = request.get("response_format", {}).get("type") == "json_schema"
    answer = ModelAnswer(reply.text, model, tokens_in, tokens_out, cost, demo, cached=reply.cached)
    if question.offer:
        text, *more = read_proposals(reply, question)
        unread = max(0, reply.ignored - MAX_CALLS)
        return replace(answer, text=text, ignored=unread, more=tuple(more))
    text = unpack(reply.text) if is_strict else reply.text
    if not (question.is_verbatim or question.is_probe):
        text = read_text(reply.text, question, is_strict=is_strict)
    return replace(answer, text=text, tool_calls=reply.tool_calls, ignored=reply.ignored)


def _length(request: dict[str, Json]) -> int:
    """Return the number of characters that a model reads: texts, repeated calls, tools."""
    messages = request["messages"]
    calls = [message["tool_calls"] for message in messages if "tool_calls" in message]
    shapes = [*calls, *request.get("tools", ())]
    return sum(len(message["content"] or "") for message in messages) + sum(
        len(json.dumps(shape)) for shape in shapes
    )


def _tokens_in_text(characters: int) -> int:
    """Estimate the tokens in a text of so many characters, at least 1."""
    return max(1, -(-characters // _CHARACTERS_A_TOKEN))


# The open connections to model servers.
#
# Each event loop has a pool for each address and key, so that a key is never sent to another
# address.


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


async def _refuse_faults(response: httpx2.Response) -> None:
    """Raise ModelFailed unless the server accepted the call. A hook of the HTTP client."""
    if not response.is_success:
        raise fault(response.status_code, response.headers.get("retry-after"), at=datetime.now(UTC))


# The cost of an answer, by prices that are data; prices.json names their sources.

_MILLION = 1_000_000
_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{4})", re.ASCII)  # the end of a dated model's name


def cost_micro_usd(model: str, *, tokens_in: int, tokens_out: int) -> int | None:
    """Return millionths of a dollar, rounded up; None for a model of unknown price."""
    price = _price(model)
    if price is None:
        return None
    of_million = tokens_in * price[0] + tokens_out * price[1]
    return -(-of_million // _MILLION)


def _price(model: str) -> tuple[int, int] | None:
    """Return the price of a model, or of the model that it is a dated version of.

    Only dates may follow the name: gpt-4.1-huge is not a known kind of gpt-4.1.
    """
    fitting = [
        name
        for name in _prices()
        if model == name or (model.startswith(name) and _DATE.fullmatch(model, len(name)))
    ]
    return _prices()[max(fitting, key=len)] if fitting else None


@cache
def _prices() -> dict[str, tuple[int, int]]:
    """Return millionths of a dollar per million tokens, in and out, by model."""
    text = Path(__file__).with_name("prices.json").read_text(encoding="utf-8")
    models = json.loads(text)["models"]
    return {model: (_micro(sent), _micro(back)) for model, (sent, back) in models.items()}


def _micro(dollars: str) -> int:
    return int(Decimal(dollars) * _MILLION)
