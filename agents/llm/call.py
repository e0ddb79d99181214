"""Ask a model once, under one deadline and one size cap."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import aiohttp
import httpx2
import openai
from django.conf import settings
from openai import AsyncOpenAI

from agents.core.requests import Json
from agents.llm import model_of
from agents.llm.backend import Backend, backend
from agents.llm.client import client_of
from agents.llm.envelope import envelop, unpack
from agents.llm.exchange import ModelAnswer, ModelFailed, Question
from agents.llm.prices import cost_micro_usd
from agents.llm.prompts import prompt
from agents.llm.reply import MAX_CALLS, bad_response, read_reply
from agents.llm.stream import LONGEST_BEGIN, chunks_in, is_stream, join
from agents.llm.tool_calls import PROBE, offer_tools, read_proposals

MAX_BODY = 1024 * 1024  # bytes, unpacked
MAX_STREAM = 16 * MAX_BODY  # a stream has a few hundred bytes for each token
SILENCE = 30.0  # seconds between two parts of a stream
TOLD_EVERY = 1.0  # seconds
Told: TypeAlias = Callable[[int], Awaitable[object]]
CHARACTERS_A_TOKEN = 4  # about, where a server does not count


async def ask(question: Question, *, timeout: float, told: Told | None = None) -> ModelAnswer:
    """Return a model's answer, within `timeout` seconds in all. Raises ModelFailed.

    One attempt: the caller decides whether to retry. While a server streams, `told` is given how
    many tokens it has written, about once a second, and a silence ends the call.
    """
    server = backend()
    request = request_for(question, server)
    try:
        async with asyncio.timeout(timeout):
            body = await _fetch(await client_of(server), request, timeout, told)
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
    if is_stream(body[:LONGEST_BEGIN]):
        body = join(body)
    return _answer(body, request, demo=server.demo, is_offer=question.offer is not None)


def request_for(question: Question, server: Backend) -> dict[str, Json]:
    """Return the request body for a question."""
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
    client: AsyncOpenAI, request: dict[str, Json], timeout: float, told: Told | None
) -> bytes:
    """Return the raw body of a successful call, as the package would parse anything."""
    if settings.OPENAI_STREAM:
        request = {**request, "stream": True, "stream_options": {"include_usage": True}}
    completions = client.chat.completions.with_streaming_response
    body, newest = bytearray(), time.monotonic()
    async with completions.create(**request, timeout=timeout) as response:
        parts = aiter(response.iter_bytes())
        while True:
            # Until the first part comes, a server reads what was asked.
            streams = is_stream(body[:LONGEST_BEGIN])
            async with asyncio.timeout(SILENCE if streams else None):
                part = await anext(parts, None)
            if part is None:
                break
            body += part
            if told and streams and time.monotonic() - newest >= TOLD_EVERY:
                newest = time.monotonic()
                await told(chunks_in(body))
            if len(body) > (most := MAX_STREAM if streams else MAX_BODY):
                message = f"The model's answer is larger than {most} bytes."
                raise bad_response(message)
    return bytes(body)


def _answer(body: bytes, request: dict[str, Json], *, demo: bool, is_offer: bool) -> ModelAnswer:
    reply = read_reply(body)
    model = reply.model or request["model"]
    asked = sum(len(message["content"] or "") for message in request["messages"])
    estimate = tokens_in_text(asked), tokens_in_text(len(reply.text))
    tokens_in, tokens_out = reply.tokens or estimate
    cost = None
    if reply.tokens:
        cost = cost_micro_usd(model, tokens_in=tokens_in, tokens_out=tokens_out)
    is_strict = request.get("response_format", {}).get("type") == "json_schema"
    text = unpack(reply.text) if is_strict else reply.text
    told = ModelAnswer(text, model, tokens_in, tokens_out, cost, demo, cached=reply.cached)
    if is_offer:
        text, *more = read_proposals(reply)
        unread = max(0, reply.ignored - MAX_CALLS)
        return replace(told, text=text, ignored=unread, more=tuple(more))
    return replace(told, tool_calls=reply.tool_calls, ignored=reply.ignored)


def tokens_in_text(characters: int) -> int:
    """Estimate the tokens in a text of so many characters, at least 1."""
    return max(1, -(-characters // CHARACTERS_A_TOKEN))
