"""Answers in parts, and answers of the Responses API: joined, counted, and ended by silence."""

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.test import override_settings

from agents import llm
from agents.core.requests import Json
from agents.engine.turns import asking
from agents.llm import call
from tests.desks import bank
from tests.engine.scene import fresh, go
from tests.engine.test_tool_calls import READ, at_bank, end, pay
from tests.llm.asking import failure_of, serving


def chunk(delta: Json, finish: str | None = None, **more: Json) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3}
COUNT = b"data: " + json.dumps({"choices": [], "usage": USAGE, "model": "m"}).encode() + b"\n\n"


def streaming(*parts: bytes | float) -> Callable[[BaseHTTPRequestHandler], None]:
    """Send parts, each at once; a number is a pause in seconds."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for part in parts:
            if isinstance(part, float):
                time.sleep(part)
            else:
                handler.wfile.write(part)
                handler.wfile.flush()

    return respond


def test_a_stream_that_is_too_large_is_refused() -> None:
    with serving(streaming(*[chunk({"content": "x" * call.MAX_BODY})] * 2, DONE)) as (url, _):
        assert failure_of(url, OPENAI_STREAM=True).reason == "llm_bad_response"


def test_silence_ends_a_stream_long_before_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "SILENCE", 0.1)

    with serving(streaming(chunk({"content": "Hel"}), 0.2, 0.2, 0.2, DONE), threads_end=False) as (
        url,
        _,
    ):
        failed = failure_of(url, timeout=30, OPENAI_STREAM=True)

    assert failed.reason == "llm_timeout"  # the whole answer came after 0.6 s


@pytest.mark.django_db(transaction=True)
def test_streaming_step_shows_the_amount_never_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    run, seen = at_bank(), list[Json]()
    noted = asking._note_tokens

    async def note(step: Any, tokens: int) -> None:
        await noted(step, tokens)
        seen.append(
            await asking.in_database(lambda: list(open_steps.values("tokens_out", "reply")))
        )

    open_steps = run.steps.filter(ended_at=None)
    monkeypatch.setattr(asking, "_note_tokens", note)
    monkeypatch.setattr(call, "TOLD_EVERY", 0.0)
    replies = [[READ], [pay()], [end("Paid.")]]

    def respond(handler: Any) -> None:
        calls = [
            {"index": 0, "function": {"name": name, "arguments": json.dumps(args)}}
            for name, args in replies.pop(0)
        ]
        begin = chunk({"content": ""})
        streaming(begin, 0.1, chunk({"tool_calls": calls}), 0.1, COUNT, DONE)(handler)

    with (
        serving(respond) as (url, _),
        override_settings(OPENAI_BASE_URL=url, OPENAI_TOOL_CALLS="on", OPENAI_STREAM=True),
    ):
        run = go(run)

    assert bank.postings(run) == [("P-101", 48000)]
    assert any(one["tokens_out"] for found in seen for one in found)
    assert all(one["reply"] is None for found in seen for one in found)
    asks = fresh(run).steps.filter(kind="ask")
    assert [(step.tokens_in, step.tokens_out, step.model) for step in asks] == [(7, 3, "m")] * 3
    assert llm.address() == ""


OWN: dict[str, Any] = {"OPENAI_API": "responses"}
