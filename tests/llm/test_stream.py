"""Answers in parts, and answers of the Responses API: joined, counted, and ended by silence."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.test import override_settings

from agents import llm
from agents.core.requests import Json
from agents.engine.turns import asking
from agents.llm import call
from tests.conformance.replay_server import ReplayServer
from tests.desks import bank
from tests.engine.scene import fresh, go
from tests.engine.test_tool_calls import GOAL, READ, at_bank, end, note_of, pay
from tests.llm.asking import ask_model, failure_of, load_script, send, serving
from tests.llm.tool_server import Calls


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
        begun = time.monotonic()
        failed = failure_of(url, timeout=30, OPENAI_STREAM=True)

    assert failed.reason == "llm_timeout"
    assert time.monotonic() - begun < 5


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
CACHED = {"prompt_tokens": 1000, "completion_tokens": 500, "cached_tokens": 900}


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_and_its_counts_are_read(replay: ReplayServer, stream: bool) -> None:
    url, session = load_script(replay, {"text": "Hello", "usage": CACHED, "model": "gpt-4.1-mini"})

    answer = ask_model(url, OPENAI_STREAM=stream, **OWN)

    assert (answer.text, answer.model) == ("Hello", "gpt-4.1-mini")
    assert (answer.tokens_in, answer.tokens_out, answer.cached) == (1000, 500, 900)
    asked = session.log[-1]["body"]
    assert [item["role"] for item in asked["input"]] == ["system", "user"]
    assert (asked["text"]["format"], asked["store"]) == ({"type": "json_object"}, False)


@contextmanager
def responding(*replies: Calls) -> Iterator[tuple[str, list[Json]]]:
    asked: list[Json] = []
    left = list(replies)

    def respond(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        asked.append({"path": handler.path, **json.loads(body)})
        choice = asked[-1]["tool_choice"]
        calls = [(choice["name"], {})] if isinstance(choice, dict) else left.pop(0)
        output = [
            {"type": "function_call", "call_id": "c", "name": name, "arguments": json.dumps(args)}
            for name, args in calls
        ]
        said = {"status": "completed", "output": [{"type": "reasoning"}, *output]}
        send(handler, json.dumps(said).encode())

    with serving(respond, with_body=True) as (url, _):
        yield url, asked


@pytest.mark.django_db(transaction=True)
def test_tools_are_called_and_their_results_told() -> None:
    run = at_bank()

    with (
        responding([READ], [pay()], [end("Paid.")]) as (url, asked),
        override_settings(OPENAI_BASE_URL=url, OPENAI_TOOL_CALLS="auto", **OWN),
    ):
        run = go(run)

    assert (bank.postings(run), note_of(run)) == ([("P-101", 48000)], "Paid.")
    assert {one["path"].rpartition("/")[2] for one in asked} == {"responses"}
    assert asked[1]["tools"][0]["name"]
    assert asked[1]["input"][1] == {"role": "user", "content": GOAL}
    called, told = asked[2]["input"][2:]
    assert (called["type"], told["type"]) == ("function_call", "function_call_output")
    assert called["call_id"] == told["call_id"] != "c"
