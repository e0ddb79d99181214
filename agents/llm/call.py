"""Ask a model once, under one deadline and one size cap."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

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
from agents.llm.tool_calls import PROBE, offer_tools, read_proposals

MAX_BODY = 1024 * 1024  # bytes, unpacked
CHARACTERS_A_TOKEN = 4  # about, where a server does not count


async def ask(question: Question, *, timeout: float) -> ModelAnswer:
    """Return a model's answer, within `timeout` seconds in all. Raises ModelFailed.

    One attempt: the caller decides whether to retry.
    """
    server = backend()
    request = request_for(question, server)
    try:
        async with asyncio.timeout(timeout):
            body = await _fetch(await client_of(server), request, timeout)
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


async def _fetch(client: AsyncOpenAI, request: dict[str, Json], timeout: float) -> bytes:
    """Return the raw body of a successful call, as the package would parse anything."""
    completions = client.chat.completions.with_streaming_response
    body = bytearray()
    async with completions.create(**request, timeout=timeout) as response:
        async for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_BODY:
                message = f"The model's answer is larger than {MAX_BODY} bytes."
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
