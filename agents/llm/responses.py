"""Ask by the Responses API: a request and its answer are those of a chat completion, reworded.

So prompts, tools, limits and the reading of untrusted replies are the same. Nothing is stored at
the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from agents.core.requests import Json
from agents.llm.reply import bad_response

CHAT, RESPONSES = "chat", "responses"
_ENDS = {"response.completed", "response.incomplete", "response.failed"}


def reworded(request: dict[str, Json]) -> dict[str, Json]:
    """Return a request for a chat completion in the words of the Responses API."""
    items = [item for message in request["messages"] for item in _items_of(message)]
    asked: dict[str, Json] = {"model": request["model"], "input": items, "store": False}
    if form := request.get("response_format"):
        schema = form.get("json_schema", {})
        asked["text"] = {"format": {"type": form["type"], **schema}}
    if "tools" in request:
        asked["tools"] = [{"type": "function", **tool["function"]} for tool in request["tools"]]
        choice = request["tool_choice"]
        asked["tool_choice"] = (
            {"type": "function", **choice["function"]} if isinstance(choice, dict) else choice
        )
    return asked


def _items_of(message: Json) -> Iterator[Json]:
    if message["role"] == "tool":
        output = {"call_id": message["tool_call_id"], "output": message["content"]}
        yield {"type": "function_call_output", **output}
    for call in message.get("tool_calls", ()):
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}
    if message["role"] != "tool" and message["content"] is not None:
        yield {"role": message["role"], "content": message["content"]}


def completion_of(body: bytes) -> bytes:
    """Return a response as the chat completion that it amounts to. Raises ModelFailed."""
    try:
        said = json.loads(body.decode())
    except (ValueError, RecursionError):
        return body  # which is read, and refused, as any other
    output = said.get("output") if isinstance(said, dict) else None
    if not isinstance(output, list) or said.get("status") == "failed":
        raise bad_response("The model's server answered without a response.")
    texts, refusals, calls = list[str](), list[str](), list[Json]()
    for item in filter(_is_object, output):
        if item.get("type") == "function_call":
            function = {name: item.get(name) for name in ("name", "arguments")}
            calls.append({"type": "function", "function": function})
        parts = item.get("content") if item.get("type") == "message" else None
        for part in filter(_is_object, parts if isinstance(parts, list) else ()):
            texts += [text] if isinstance(text := part.get("text"), str) else []
            refusals += [no] if isinstance(no := part.get("refusal"), str) else []
    message: Json = {"content": "".join(texts), "refusal": "".join(refusals) or None}
    if calls:
        message["tool_calls"] = calls
    counted = said.get("usage") if _is_object(said.get("usage")) else {}
    usage = {
        "prompt_tokens": counted.get("input_tokens"),
        "completion_tokens": counted.get("output_tokens"),
        "prompt_tokens_details": counted.get("input_tokens_details"),
    }
    choice = {"message": message, "finish_reason": _finish(said)}
    return json.dumps({"model": said.get("model"), "choices": [choice], "usage": usage}).encode()


def _finish(said: Json) -> str:
    """Return why it ended; what is not complete is read as cut off, or withheld by a filter."""
    if said.get("status", "completed") == "completed":
        return "stop"
    details = said.get("incomplete_details")
    reason = details.get("reason") if _is_object(details) else None
    return "content_filter" if reason == "content_filter" else "length"


def join_events(body: bytes) -> bytes:
    """Return the response in which a stream of events ends. Raises ModelFailed if it broke off."""
    for line in reversed(body.splitlines()):
        if not line.startswith(b"data:"):
            continue
        try:
            event = json.loads(line.removeprefix(b"data:").decode())
        except (ValueError, RecursionError):
            continue
        if _is_object(event) and event.get("type") in _ENDS:
            return json.dumps(event.get("response")).encode()
    raise bad_response("The model's answer broke off.")


def _is_object(value: Json) -> bool:
    return isinstance(value, dict)
