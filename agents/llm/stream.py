"""Read a completion that comes in chunks. Its parts are joined and then read like any other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from agents.core.requests import Json
from agents.llm.reply import bad_response

BEGIN, END = b"data:", b"[DONE]"
_ENDED = re.compile(rb"^data:\s*\[DONE\]\s*$", re.MULTILINE)  # and not within what is written
LONGEST_BEGIN = 64  # bytes of a body that tell whether it is a stream


def is_stream(body: bytes | bytearray) -> bool:
    """Tell whether a body that has begun is a stream of chunks."""
    return body.lstrip().startswith((BEGIN, b":", b"event:"))


def chunks_in(body: bytes | bytearray) -> int:
    """Return how many chunks have come so far: about as many as tokens were written."""
    return body.count(BEGIN)


def join(body: bytes) -> bytes:
    """Return the completion that a stream amounts to. Raises ModelFailed if it broke off."""
    text, calls, finish, whole = "", dict[int, dict[str, str]](), None, dict[str, Json]()
    refusal = ""
    for chunk in _chunks(body):
        whole |= {name: chunk[name] for name in ("model", "usage") if chunk.get(name)}
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        choice = choice if isinstance(choice, dict) else {}
        finish = choice.get("finish_reason") or finish
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        text += _text(delta.get("content"))
        refusal += _text(delta.get("refusal"))
        parts = delta.get("tool_calls") or []
        for part in parts if isinstance(parts, list) else [parts]:
            _add(calls, part)
    if finish is None and not _ENDED.search(body):
        raise bad_response("The model's answer broke off.")
    message: Json = {"role": "assistant", "content": text, "refusal": refusal or None}
    if calls:
        message["tool_calls"] = [{"type": "function", "function": calls[n]} for n in sorted(calls)]
    choice = {"message": message, "finish_reason": finish}
    return json.dumps({**whole, "choices": [choice]}).encode()


def _chunks(body: bytes) -> Iterator[dict[str, Json]]:
    for line in body.splitlines():
        said = line.removeprefix(BEGIN).strip() if line.startswith(BEGIN) else END
        if said == END:
            continue
        try:
            chunk = json.loads(said.decode())
        except (ValueError, RecursionError):
            raise bad_response("A part of the model's answer is not JSON.") from None
        if not isinstance(chunk, dict) or chunk.get("error"):
            raise bad_response("The model's server broke its answer off with an error.")
        yield chunk


def _add(calls: dict[int, dict[str, str]], part: Json) -> None:
    """Add a part of a call: its arguments come in pieces, its name in the first."""
    if not isinstance(part, dict) or not isinstance(part.get("function"), dict):
        raise bad_response("A part of the model's answer is no call.")
    index = part.get("index", 0)
    known = calls.setdefault(index if type(index) is int else 0, {"name": "", "arguments": ""})
    for name in known:
        piece = part["function"].get(name)
        known[name] += json.dumps(piece) if isinstance(piece, dict) else _text(piece)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
