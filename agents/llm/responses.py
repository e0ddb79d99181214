"""Ask by the Responses API: a request and its answer are those of a chat completion, reworded.

So prompts, tools, limits and the reading of untrusted replies are the same. Nothing is stored at
the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from agents.core.requests import Json
from agents.llm.finish import bad_response, has_error, is_whole
from agents.llm.reply import content_of, parse_body, part_of
from agents.llm.stream import events_in, has_ended

CHAT, RESPONSES = "chat", "responses"
_SPOKEN = _CALL, _MESSAGE = "function_call", "message"  # types of items
_COMPLETE = "completed"
_PIECES = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}
_ENDS = {f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled")}


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
    said = parse_body(body)
    output = part_of(said, "output")
    if not isinstance(output, list) or said.get("status") == "failed" or has_error(said):
        raise bad_response("The model's server answered without a response.")
    text, refusal, calls = "", "", list[Json]()
    spoken = [item for item in output if part_of(item, "type") in _SPOKEN]
    for item in spoken:
        if item["type"] == _CALL:
            function = {name: item.get(name) for name in ("name", "arguments")}
            calls.append({"type": "function", "function": function})
        else:
            words, no = content_of(item.get("content"))
            text, refusal = text + words, refusal + no
    message = {"content": text, "refusal": refusal, "tool_calls": calls}
    counted = said.get("usage")
    usage = {
        "prompt_tokens": part_of(counted, "input_tokens"),
        "completion_tokens": part_of(counted, "output_tokens"),
        "prompt_tokens_details": part_of(counted, "input_tokens_details"),
    }
    choice = {"message": message, "finish_reason": _finish(said, spoken)}
    return json.dumps({"model": said.get("model"), "choices": [choice], "usage": usage}).encode()


def _finish(said: Json, spoken: list[Json]) -> Json:
    """Return why it ended, in the words of a completion; an item of it may be cut off, too."""
    status = said.get("status") or _COMPLETE
    if status == _COMPLETE:
        are_whole = all((item.get("status") or _COMPLETE) == _COMPLETE for item in spoken)
        return "stop" if are_whole else "length"
    if status != "incomplete":
        return status
    reason = part_of(said.get("incomplete_details"), "reason")
    return "length" if is_whole(reason) else reason


def join_events(body: bytes) -> bytes:
    """Return the response that a stream of events amounts to. Raises ModelFailed if it broke off.

    Some servers send its output only in pieces, and some no last event.
    """
    response: Json = None
    items, said = dict[str, Json](), list[Json]()
    for event in events_in(body):
        kind, piece = event.get("type"), event.get("delta")
        item: Json = event.get("item")
        id_ = event.get("item_id") or part_of(item, "id")
        place = str(event.get("output_index", id_ or len(items)))
        if kind in _ENDS:
            response = event.get("response")
        elif kind == "response.output_item.done" and isinstance(item, dict):
            items[place] = item
        elif part_of(item, "type") == _CALL:
            items[place] = {**item, "status": "in_progress"}  # cut off, if nothing follows
        elif kind == "response.function_call_arguments.done" and place in items:
            items[place] |= {"arguments": event.get("arguments"), "status": _COMPLETE}
        elif kind in _PIECES and isinstance(piece, str):
            said.append({"type": _PIECES[kind], _PIECES[kind]: piece})
    if response is None and not (has_ended(body) and items):
        raise bad_response("The model's answer broke off.")
    response = {} if response is None else response
    if isinstance(response, dict) and not response.get("output"):
        response["output"] = list(items.values())
        if said and not any(item.get("type") == _MESSAGE for item in items.values()):
            response["output"].append({"type": _MESSAGE, "content": said})
    return json.dumps(response).encode()
