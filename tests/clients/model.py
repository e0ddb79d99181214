"""A model that decides by what it was told, over HTTP: every request samples anew.

Its calls have another id each time, and, as a new request begins the conversation, other words.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any, TypeAlias

from tests.listening import Silent, listening

Call: TypeAlias = tuple[str, str, str]  # id, tool, arguments as JSON
REASONS = ("charged twice", "The customer says that she paid two times.", "Paid two times.")


class Model:
    """What it calls in its first message; then it says what was paid."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls, self.began, self.seen = calls, 0, list[Any]()

    def answer(self, body: Any) -> dict[str, Any]:
        """Return a message, or the output of a response, as the request's kind has it."""
        self.seen.append(body)
        is_chat = "messages" in body
        if is_chat:
            told = [one["content"] for one in body["messages"] if one["role"] == "tool"]
        else:
            kinds = [one for one in body["input"] if isinstance(one, dict)]
            told = [one["output"] for one in kinds if one.get("type") == "function_call_output"]
        calls = [] if told else list(self._calls())
        words = "" if calls else _last_words([json.loads(one) for one in told])
        return _chat(calls, words) if is_chat else _response(calls, words)

    def _calls(self) -> Iterator[Call]:
        words = REASONS[self.began % len(REASONS)]
        self.began += 1
        for name, arguments in self.calls:
            said = {**arguments, "reason": words} if name == "issue_refund" else arguments
            yield f"call_{uuid.uuid4().hex[:20]}", name, json.dumps(said)


def _last_words(told: list[Any]) -> str:
    amounts = [
        one["arguments"]["amount_usd"]
        for one in told
        if one["status"] == "executed" and "amount_usd" in one.get("arguments", {})
    ]
    words = " and ".join(f"USD {amount:,.2f}" for amount in amounts) or "Nothing"
    return f"{words} was refunded."


def _chat(calls: list[Call], words: str) -> dict[str, Any]:
    said = [
        {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call, name, arguments in calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": words or None}
    message |= {"tool_calls": said} if said else {}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if said else "stop"}
    usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 1)
    return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}


def _response(calls: list[Call], words: str) -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {"id": f"fc_{call}", "type": "function_call", "status": "completed"}
        | {"call_id": call, "name": name, "arguments": arguments}
        for call, name, arguments in calls
    ]
    if words:
        text = {"type": "output_text", "text": words, "annotations": []}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [text]})
    usage: dict[str, Any] = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), 1)
    usage |= {"input_tokens_details": {"cached_tokens": 0}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    told: dict[str, Any] = {"id": "r", "object": "response", "status": "completed"}
    told |= {
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    return {**told, "created_at": 1}


@contextmanager
def serving_model(model: Model) -> Iterator[str]:
    """Serve it on this machine; yield the address for OPENAI_BASE_URL."""

    class Handler(Silent):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told = {**model.answer(body), "created": 1, "model": body["model"]}
            text = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with listening(server):
        yield f"http://127.0.0.1:{server.server_port}/v1"
