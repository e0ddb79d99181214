"""Read the body of a chat completion. The server is trusted no more than its model."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from agents.core.requests import Json
from agents.llm.finish import bad_response, check_finish, has_error

MAX_TOKENS = 1_000_000_000  # a larger count is an error and would not fit its column
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
    ignored: int = 0  # how many it holds
    cached: int = 0  # of the tokens in, those that the server had read before, where it says


def read_reply(body: bytes) -> Completion:
    """Return the content of a completion. Raises ModelFailed if it is unusable."""
    completion = parse_body(body)
    choices = part_of(completion, "choices")
    if not isinstance(choices, list) or not choices:
        raise bad_response("The model's server answered without choices.")
    choice = choices[0]
    message = part_of(choice, "message")
    if not isinstance(message, dict):
        raise bad_response("The model's server answered without a message.")
    if has_error(completion, *completion.values(), choice, message):
        raise bad_response("The model's server reported an error beside its answer.")
    text, refusal = content_of(message.get("content"))
    calls = calls_in(message)
    is_refused = bool(message.get("refusal") or refusal)
    check_finish(part_of(choice, "finish_reason"), refused=is_refused, ignored=len(calls))
    model, usage = part_of(completion, "model"), part_of(completion, "usage")
    cached = part_of(part_of(usage, "prompt_tokens_details"), "cached_tokens")
    return Completion(
        text=_storable(text),
        model=_storable(model) if isinstance(model, str) else "",
        tokens=_tokens(usage),
        tool_calls=tuple(_storable(json.dumps(c, ensure_ascii=False)) for c in calls[:MAX_CALLS]),
        ignored=len(calls),
        cached=cached if _is_count(cached) else 0,
    )


def content_of(content: Json) -> tuple[str, str]:
    """Return what a message says, and how it refuses. Parts that hold reasoning are left out."""
    if isinstance(content, str | None):
        return content or "", ""
    said = {"text": "", "refusal": ""}
    for part in content if isinstance(content, list) else [content]:
        kind = part_of(part, "type")
        if kind in _REASONING:
            continue
        name = "refusal" if kind == "refusal" else "text"
        text = part_of(part, name)
        if kind not in _SPOKEN or not isinstance(text, str):
            raise bad_response("The model's message is not text.")
        said[name] += text
    return said["text"], said["refusal"]


def calls_in(message: Json) -> list[Json]:
    """Return the native tool calls in a message, or the parts of them in a delta."""
    calls = part_of(message, "tool_calls")
    found = [*(calls if isinstance(calls, list) else [calls]), part_of(message, "function_call")]
    return [call for call in found if call]


def parse_body(body: bytes) -> Json:
    """Return the JSON of a body. Raises ModelFailed."""
    if body.lstrip()[:1] == b"<":
        raise bad_response("The model's server answered with a web page. Check OPENAI_BASE_URL.")
    try:
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):  # also for broken UTF-8 and endless digits or brackets
        raise bad_response("The model's server answered with something that is not JSON.") from None


def part_of(value: Json, key: str) -> Json:
    """Return a part of an object, None of anything else."""
    return value.get(key) if isinstance(value, dict) else None


def _tokens(usage: Json) -> tuple[int, int] | None:
    counts = part_of(usage, "prompt_tokens"), part_of(usage, "completion_tokens")
    return counts if all(map(_is_count, counts)) else None


def _is_count(count: Json) -> bool:
    # `type`, because True is an int too.
    return type(count) is int and 0 <= count <= MAX_TOKENS


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)
