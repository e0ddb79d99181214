"""The Responses API: the same questions and answers in other words."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.test import override_settings

from agents.core.requests import Json
from tests.conformance.replay_server import ReplayServer
from tests.desks import bank
from tests.engine.scene import go
from tests.engine.test_tool_calls import GOAL, READ, at_bank, end, note_of, pay
from tests.llm.asking import ask_model, load_script, send, serving
from tests.llm.tool_server import Calls

OWN: dict[str, Any] = {"OPENAI_API": "responses"}
USAGE = {"prompt_tokens": 1000, "completion_tokens": 500, "cached_tokens": 900}


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_and_its_counts_are_read(replay: ReplayServer, stream: bool) -> None:
    url, session = load_script(replay, {"text": "Hello", "usage": USAGE, "model": "gpt-4.1-mini"})

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
