"""Read a server's answer: a chat completion, whole or in events, or a response.

Each form becomes the body of a completion, which is read once. The server is trusted no more than
its model.
"""

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from agents.core.requests import Json
from agents.llm.servers import ModelFailed

_MAX_TOKENS = 1_000_000_000  # a larger count is an error and would not fit its column
MAX_CALLS = 5  # unrequested tool calls that are kept
_SPOKEN = (None, "text", "output_text", "refusal")  # kinds of parts of a message
_REASONING = ("thinking", "redacted_thinking", "reasoning", "reasoning_text")

# PostgreSQL rejects NUL in text, and both databases reject half a surrogate pair.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class Completion:
    """The content of a successful call's body."""

    text: str
    model: str  # "" if the server does not say
    tokens: tuple[int, int] | None  # in and out; None if the server does not say
    tool_calls: tuple[str, ...] = ()  # the first that the message holds unasked, as JSON
    ignored: int = 0  # how many it has
    cached: int = 0  # of the tokens in, those in the server's cache, if it reports them


def read_reply(body: bytes) -> Completion:
    """Return the content of a completion. Raises ModelFailed if it is unusable."""
    completion = _parse_body(body)
    choices = _part_of(completion, "choices")
    if not isinstance(choices, list) or not choices:
        raise bad_response("The model's server answered without choices.")
    choice = choices[0]
    message = _part_of(choice, "message")
    if not isinstance(message, dict):
        raise bad_response("The model's server answered without a message.")
    if _has_error(completion, *completion.values(), choice, message):
        raise bad_response("The model's server reported an error beside its answer.")
    text, refusal = _content_of(message.get("content"))
    calls = _calls_in(message)
    is_refused = bool(message.get("refusal") or refusal)
    _check_finish(_part_of(choice, "finish_reason"), refused=is_refused, ignored=len(calls))
    model, usage = _part_of(completion, "model"), _part_of(completion, "usage")
    cached = _part_of(_part_of(usage, "prompt_tokens_details"), "cached_tokens")
    return Completion(
        text=_storable(text),
        model=_storable(model) if isinstance(model, str) else "",
        tokens=_tokens(usage),
        tool_calls=tuple(_storable(json.dumps(c, ensure_ascii=False)) for c in calls[:MAX_CALLS]),
        ignored=len(calls),
        cached=cached if _is_count(cached) else 0,
    )


def _content_of(content: Json) -> tuple[str, str]:
    """Return a message's text, and its refusal, without reasoning."""
    if isinstance(content, str | None):
        return content or "", ""
    content_texts = {"text": "", "refusal": ""}
    for part in content if isinstance(content, list) else [content]:
        kind = _part_of(part, "type")
        if kind in _REASONING:
            continue
        name = "refusal" if kind == "refusal" else "text"
        text = _part_of(part, name)
        if kind not in _SPOKEN or not isinstance(text, str):
            raise bad_response("The model's message is not text.")
        content_texts[name] += text
    return content_texts["text"], content_texts["refusal"]


def _calls_in(message: Json) -> list[Json]:
    """Return the native tool calls in a message, or the parts of them in a delta."""
    calls = _part_of(message, "tool_calls")
    parts = [*(calls if isinstance(calls, list) else [calls]), _part_of(message, "function_call")]
    return [call for call in parts if call]


def _parse_body(body: bytes) -> Json:
    """Return the JSON of a body. Raises ModelFailed."""
    if body.lstrip()[:1] == b"<":
        raise bad_response("The model's server answered with a web page. Check OPENAI_BASE_URL.")
    try:
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):  # also for broken UTF-8 and endless digits or brackets
        raise bad_response("The model's server answered with something that is not JSON.") from None


def _part_of(value: Json, key: str) -> Json:
    """Return a part of an object, None of anything else."""
    return value.get(key) if isinstance(value, dict) else None


def _tokens(usage: Json) -> tuple[int, int] | None:
    counts = _part_of(usage, "prompt_tokens"), _part_of(usage, "completion_tokens")
    return counts if all(map(_is_count, counts)) else None


def _is_count(count: Json) -> bool:
    # `type`, because True is an int too.
    return type(count) is int and 0 <= count <= _MAX_TOKENS


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


# Why a reply ended. Only a complete one is read: a beginning may parse and mean the opposite.

_WHOLE = {"", "stop", "tool_calls", "function_call", "eos", "eos_token", "stop_sequence"}
_WHOLE |= {"end_turn"}
_FAULT = "llm_bad_response"
_OTHERWISE = (  # meaning of words that contain one of these, in the spellings of many families
    (_FAULT, r"(?:network_)?error|insufficient_system_resource|abort", "broke off with an error"),
    (
        "llm_refused",
        r".*(?:filter|safety|sensitive|recitation|block|prohibit|refus|spii|toxic|guardrail).*",
        "was withheld by a content filter",
    ),
    (
        "llm_truncated",
        r".*(?:length|max|truncat|context|token_limit|too_long).*",
        "was cut off at its length limit",
    ),
    ("llm_ended", r"(?s:.*)", "ended with a word that is not known"),
)


def _is_whole(word: Json) -> bool:
    """Tell whether a word means a whole reply; no word, as from some servers, does too."""
    return word is None or (isinstance(word, str) and word.strip().lower() in _WHOLE)


def _check_finish(word: Json, *, refused: bool = False, ignored: int = 0) -> None:
    """Raise ModelFailed unless the reply is whole. Only a server's fault is an outage."""
    if _is_whole(word):
        if refused:
            raise ModelFailed("llm_refused", "The model refused to answer.", ignored=ignored)
        return
    finish = word if isinstance(word, str) else json.dumps(word)
    known = (one for one in _OTHERWISE if re.fullmatch(one[1], finish.strip().lower()))
    reason, _, why = next(known)
    if reason == _FAULT:
        raise bad_response(f"The model's answer {why}.")
    unknown = finish if reason == "llm_ended" else ""
    raise ModelFailed(reason, f"The model's answer {why}.", ignored=ignored, word=unknown)


def _has_error(*parts: Json) -> bool:
    """Tell whether a server reports an error in one of these objects."""
    objects = [part for part in parts if isinstance(part, dict)]
    kinds = [one.get(name) for one in objects for name in ("type", "object")]
    return "error" in kinds or any(one.get("error") or one.get("errors") for one in objects)


def bad_response(message: str) -> ModelFailed:
    """Return the failure for an invalid body: torn, or not from a model."""
    return ModelFailed(_FAULT, message, retry=True, outage=True)


# An answer in events: its parts are joined and then read like any other. Servers number and name
# the parts of calls differently. A part without a name begins no call. A part with one begins a
# call if the call before is whole, or if number or id differ.

_BEGIN, END = b"data:", b"[DONE]"
_ENDED = re.compile(rb"^data:\s*\[DONE\]\s*$", re.MULTILINE)  # and not within the text
LONGEST_BEGIN = 64  # bytes of a body that show whether it is a stream
_MOST_CALLS = 100  # in one answer
_LONGEST_READ = 16_000  # characters of arguments that are parsed before all parts have come


def is_stream(body: bytes | bytearray) -> bool:
    """Tell whether a body that has begun is a stream of events."""
    begin = body.removeprefix(codecs.BOM_UTF8).lstrip()
    return begin.startswith((_BEGIN, b":", b"event:", b"id:", b"retry:"))


def chunks_in(body: bytes | bytearray) -> int:
    """Return how many chunks have come so far: about as many as tokens were written."""
    return body.count(_BEGIN)


def _has_ended(body: bytes) -> bool:
    return _ENDED.search(body) is not None


def _events_in(body: bytes) -> Iterator[dict[str, Json]]:
    """Yield the object of each event. Raises ModelFailed for an error, whatever came before."""
    data, name = list[bytes](), b""
    for line in [*body.removeprefix(codecs.BOM_UTF8).splitlines(), b""]:
        field, _, value = line.partition(b":")
        if field == b"event":
            name = value.strip()
        elif field == b"error":  # llama.cpp: a field of its own
            raise _broken_off()
        elif field == b"data" and value.strip() not in (b"", END):
            data.append(value)
        elif (data or name) and not line.strip():
            for event in _objects_in(data):
                if _has_error(event, *event.values()):
                    raise _broken_off()
                yield event
            if name == b"error":
                raise _broken_off()
            data, name = [], b""


def _objects_in(lines: list[bytes]) -> list[dict[str, Json]]:
    """Return the objects in an event's data lines: one, or for some servers one per line."""
    for parts in [[b"\n".join(lines)], lines] if lines else [lines]:
        with suppress(ValueError, RecursionError):
            objects = [json.loads(part.decode()) for part in parts]
            if all(isinstance(one, dict) for one in objects):
                return objects
    raise bad_response("A part of the model's answer is not a JSON object.")


def _broken_off() -> ModelFailed:
    return bad_response("The model's server broke its answer off with an error.")


def join(body: bytes) -> bytes:
    """Return a stream as a completion. Raises ModelFailed if it broke off."""
    text, refusal, finish = "", "", None
    calls, whole = list[_Call](), dict[str, Json]()
    may_end, has_choice = _has_ended(body), False
    for chunk in _events_in(body):
        may_end = may_end and not chunk.keys().isdisjoint(("choices", "usage"))
        whole |= {name: chunk[name] for name in ("model", "usage") if chunk.get(name)}
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        delta, word = _part_of(choice, "delta"), _part_of(choice, "finish_reason")
        if _has_error(choice, delta):
            raise _broken_off()
        has_choice = has_choice or isinstance(delta, dict)
        piece, no = _content_of(_part_of(delta, "content"))
        no += _text(_part_of(delta, "refusal"))
        parts = _calls_in(delta)
        for part in parts:
            _add(calls, part)
        text, refusal = text + piece, refusal + no
        # An error counts despite everything before. An ending other than whole stays.
        if _is_whole(finish) and (piece or no or parts or word not in (None, "")):
            finish = None if word == "" else word
    if finish is None and not may_end:
        raise bad_response("The model's answer broke off.")
    calls.sort(key=lambda call: call.index or 0)
    message = {"content": text, "refusal": refusal, "tool_calls": [c.as_json() for c in calls]}
    choices = [{"message": message, "finish_reason": finish}] if has_choice else []
    return json.dumps({**whole, "choices": choices}).encode()


@dataclass
class _Call:
    """A call whose parts are still coming."""

    index: int | None
    id: str
    name: str = ""
    arguments: str = ""
    newest: str | None = ""  # the last part, as long as each repeats all before; else None

    def add(self, name: str, piece: str) -> None:
        self.name = name if name.startswith(self.name) else self.name + name
        if piece:
            repeats = self.newest is not None and piece.startswith(self.newest)
            self.newest = piece if repeats else None
            self.arguments += piece

    def is_whole(self) -> bool:
        """Tell whether its arguments are complete. Long ones are not parsed each time."""
        is_short = len(self.arguments) <= _LONGEST_READ
        return is_short and (_is_json(self.arguments) or _is_json(self.newest))

    def as_json(self) -> Json:
        is_repeated = _is_json(self.newest) and not _is_json(self.arguments)
        arguments = self.newest if is_repeated else self.arguments
        return {"type": "function", "function": {"name": self.name, "arguments": arguments}}

    def goes_on(self, index: int | None, id_: str, name: str, piece: str) -> bool:
        """Tell whether a part belongs to this call, which is the nearest to it."""
        if not name or (id_ and self.id and id_ != self.id):
            return not name
        if index != self.index:  # it grows within a call of one id
            return bool(id_ and self.arguments) and name == self.name and not self.is_whole()
        if name == self.name and self.newest and piece.startswith(self.newest):
            return True
        return (name == self.name or not (self.name and self.arguments)) and not self.is_whole()


def _add(calls: list[_Call], part: Json) -> None:
    """Add a part to the call that it belongs to, or begin one with it."""
    function = (part.get("function", part) or {}) if isinstance(part, dict) else None
    if not isinstance(function, dict):
        raise bad_response("A part of the model's answer is no call.")
    index, id_, name = part.get("index"), _text(part.get("id")), _text(function.get("name"))
    index = index if type(index) is int else None
    piece = function.get("arguments")
    piece = json.dumps(piece) if isinstance(piece, dict) else _text(piece)
    near = max(reversed(calls), key=lambda c: (c.index == index, c.id == id_ != ""), default=None)
    if near is None or not near.goes_on(index, id_, name, piece):
        if len(calls) == _MOST_CALLS:
            raise bad_response("The model's answer holds too many calls.")
        near = _Call(index, id_)
        calls.append(near)
    near.add(name, piece)


def _is_json(text: str | None) -> bool:
    """Tell whether a text is an object, or the JSON text of one."""
    with suppress(ValueError, RecursionError):
        if text and text.rstrip().endswith(("}", '"')):
            return isinstance(json.loads(text), dict | str)
    return False


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


# The Responses API: a request and its answer, translated from and to a chat completion. So prompts,
# tools, limits and the reading of untrusted replies are the same. The server stores nothing.

_CHAT, RESPONSES = "chat", "responses"
_ITEMS = _CALL, _MESSAGE = "function_call", "message"  # types of items
_COMPLETE = "completed"
_PIECES = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}
_ENDS = {f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled")}


def reworded(request: dict[str, Json]) -> dict[str, Json]:
    """Return a chat completion's request in the form of the Responses API."""
    items = [item for message in request["messages"] for item in _items_of(message)]
    body: dict[str, Json] = {"model": request["model"], "input": items, "store": False}
    if form := request.get("response_format"):
        schema = form.get("json_schema", {})
        body["text"] = {"format": {"type": form["type"], **schema}}
    if "tools" in request:
        body["tools"] = [{"type": "function", **tool["function"]} for tool in request["tools"]]
        choice = request["tool_choice"]
        body["tool_choice"] = (
            {"type": "function", **choice["function"]} if isinstance(choice, dict) else choice
        )
    return body


def _items_of(message: Json) -> Iterator[Json]:
    if message["role"] == "tool":
        output = {"call_id": message["tool_call_id"], "output": message["content"]}
        yield {"type": "function_call_output", **output}
    for call in message.get("tool_calls", ()):
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}
    if message["role"] != "tool" and message["content"] is not None:
        yield {"role": message["role"], "content": message["content"]}


def completion_of(body: bytes) -> bytes:
    """Return a response as a chat completion. Raises ModelFailed."""
    reply = _parse_body(body)
    output = _part_of(reply, "output")
    if not isinstance(output, list) or reply.get("status") == "failed" or _has_error(reply):
        raise bad_response("The model's server answered without a response.")
    text, refusal, calls = "", "", list[Json]()
    spoken = [item for item in output if _part_of(item, "type") in _ITEMS]
    for item in spoken:
        if item["type"] == _CALL:
            function = {name: item.get(name) for name in ("name", "arguments")}
            calls.append({"type": "function", "function": function})
        else:
            words, no = _content_of(item.get("content"))
            text, refusal = text + words, refusal + no
    message = {"content": text, "refusal": refusal, "tool_calls": calls}
    counted = reply.get("usage")
    usage = {
        "prompt_tokens": _part_of(counted, "input_tokens"),
        "completion_tokens": _part_of(counted, "output_tokens"),
        "prompt_tokens_details": _part_of(counted, "input_tokens_details"),
    }
    choice = {"message": message, "finish_reason": _finish(reply, spoken)}
    return json.dumps({"model": reply.get("model"), "choices": [choice], "usage": usage}).encode()


def _finish(response: Json, spoken: list[Json]) -> Json:
    """Return why it ended, in the words of a completion; an item may be cut off too."""
    status = response.get("status") or _COMPLETE
    if status == _COMPLETE:
        are_whole = all((item.get("status") or _COMPLETE) == _COMPLETE for item in spoken)
        return "stop" if are_whole else "length"
    if status != "incomplete":
        return status
    reason = _part_of(response.get("incomplete_details"), "reason")
    return "length" if _is_whole(reason) else reason


def join_events(body: bytes) -> bytes:
    """Return the response in a stream of events. Raises ModelFailed if it broke off.

    Some servers send its output only in pieces, and some no last event.
    """
    response: Json = None
    items, pieces = dict[str, Json](), list[Json]()
    for event in _events_in(body):
        kind, piece = event.get("type"), event.get("delta")
        item: Json = event.get("item")
        id_ = event.get("item_id") or _part_of(item, "id")
        place = str(event.get("output_index", id_ or len(items)))
        if kind in _ENDS:
            response = event.get("response")
        elif kind == "response.output_item.done" and isinstance(item, dict):
            items[place] = item
        elif _part_of(item, "type") == _CALL:
            items[place] = {**item, "status": "in_progress"}  # cut off, if nothing follows
        elif kind == "response.function_call_arguments.done" and place in items:
            items[place] |= {"arguments": event.get("arguments"), "status": _COMPLETE}
        elif kind in _PIECES and isinstance(piece, str):
            pieces.append({"type": _PIECES[kind], _PIECES[kind]: piece})
    if response is None and not (_has_ended(body) and items):
        raise bad_response("The model's answer broke off.")
    response = {} if response is None else response
    if isinstance(response, dict) and not response.get("output"):
        response["output"] = list(items.values())
        if pieces and not any(item.get("type") == _MESSAGE for item in items.values()):
            response["output"].append({"type": _MESSAGE, "content": pieces})
    return json.dumps(response).encode()
