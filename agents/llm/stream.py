"""Read an answer that comes in events. Its parts are joined and then read like any other.

Servers number and name the parts of calls in their own ways. A part without a name begins no call.
A part with one begins a call where the call before is whole, or where number or id say so.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from agents.core.requests import Json
from agents.llm.exchange import ModelFailed
from agents.llm.finish import bad_response, has_error, is_whole
from agents.llm.reply import calls_in, content_of, part_of

BEGIN, END = b"data:", b"[DONE]"
_ENDED = re.compile(rb"^data:\s*\[DONE\]\s*$", re.MULTILINE)  # and not within what is written
LONGEST_BEGIN = 64  # bytes of a body that tell whether it is a stream
MOST_CALLS = 100  # in one answer
LONGEST_READ = 16_000  # characters of arguments that are read before all their parts are there


def is_stream(body: bytes | bytearray) -> bool:
    """Tell whether a body that has begun is a stream of events."""
    begin = body.removeprefix(codecs.BOM_UTF8).lstrip()
    return begin.startswith((BEGIN, b":", b"event:", b"id:", b"retry:"))


def chunks_in(body: bytes | bytearray) -> int:
    """Return how many chunks have come so far: about as many as tokens were written."""
    return body.count(BEGIN)


def has_ended(body: bytes) -> bool:
    """Tell whether a stream says that it is complete."""
    return _ENDED.search(body) is not None


def events_in(body: bytes) -> Iterator[dict[str, Json]]:
    """Yield the object of each event. Raises ModelFailed for an error, whatever came before."""
    said, name = list[bytes](), b""
    for line in [*body.removeprefix(codecs.BOM_UTF8).splitlines(), b""]:
        field, _, value = line.partition(b":")
        if field == b"event":
            name = value.strip()
        elif field == b"error":  # llama.cpp: a field of its own
            raise _broken_off()
        elif field == b"data" and value.strip() not in (b"", END):
            said.append(value)
        elif (said or name) and not line.strip():
            for event in _objects_in(said):
                if has_error(event, *event.values()):
                    raise _broken_off()
                yield event
            if name == b"error":
                raise _broken_off()
            said, name = [], b""


def _objects_in(lines: list[bytes]) -> list[dict[str, Json]]:
    """Return what the data lines of an event hold: one object or, for some servers, one a line."""
    for parts in [[b"\n".join(lines)], lines] if lines else [lines]:
        with suppress(ValueError, RecursionError):
            found = [json.loads(part.decode()) for part in parts]
            if all(isinstance(one, dict) for one in found):
                return found
    raise bad_response("A part of the model's answer is not a JSON object.")


def _broken_off() -> ModelFailed:
    return bad_response("The model's server broke its answer off with an error.")


def join(body: bytes) -> bytes:
    """Return the completion that a stream amounts to. Raises ModelFailed if it broke off."""
    text, refusal, finish = "", "", None
    calls, whole = list[_Call](), dict[str, Json]()
    may_end, has_choice = has_ended(body), False
    for chunk in events_in(body):
        may_end = may_end and not chunk.keys().isdisjoint(("choices", "usage"))
        whole |= {name: chunk[name] for name in ("model", "usage") if chunk.get(name)}
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        delta, word = part_of(choice, "delta"), part_of(choice, "finish_reason")
        if has_error(choice, delta):
            raise _broken_off()
        has_choice = has_choice or isinstance(delta, dict)
        said, no = content_of(part_of(delta, "content"))
        no += _text(part_of(delta, "refusal"))
        parts = calls_in(delta)
        for part in parts:
            _add(calls, part)
        text, refusal = text + said, refusal + no
        # A word speaks for what came before it. One that says otherwise stays.
        if is_whole(finish) and (said or no or parts or word not in (None, "")):
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
        """Tell whether its arguments are all there. Those of many parts are not read each time."""
        is_short = len(self.arguments) <= LONGEST_READ
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
        if len(calls) == MOST_CALLS:
            raise bad_response("The model's answer holds too many calls.")
        near = _Call(index, id_)
        calls.append(near)
    near.add(name, piece)


def _is_json(text: str | None) -> bool:
    """Tell whether a text is an object, or one that is written as a text once more."""
    with suppress(ValueError, RecursionError):
        if text and text.rstrip().endswith(("}", '"')):
            return isinstance(json.loads(text), dict | str)
    return False


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
