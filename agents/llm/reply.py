"""Read the body of a chat completion. The server is trusted no more than its model."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from agents.core.requests import Json
from agents.llm.exchange import ModelFailed

MAX_TOKENS = 1_000_000_000  # a larger count is an error and would not fit its column
MAX_CALLS = 5  # unrequested tool calls that are kept

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
    completion = _parse(body)
    choice = _first(_of(completion, "choices"))
    message = _of(choice, "message")
    if not isinstance(message, dict):
        raise bad_response("The model's server answered without a message.")
    text = message.get("content")
    if not isinstance(text, str | None):
        raise bad_response("The model's message is not text.")
    calls = _calls(message)
    is_refused = bool(message.get("refusal")) and not text
    _check_finished(choice, refused=is_refused, ignored=len(calls))
    model, usage = _of(completion, "model"), _of(completion, "usage")
    cached = _of(_of(usage, "prompt_tokens_details"), "cached_tokens")
    return Completion(
        text=_storable(text or ""),
        model=_storable(model) if isinstance(model, str) else "",
        tokens=_tokens(usage),
        tool_calls=tuple(_storable(json.dumps(c, ensure_ascii=False)) for c in calls[:MAX_CALLS]),
        ignored=len(calls),
        cached=cached if _is_count(cached) else 0,
    )


def _calls(message: Json) -> list[Json]:
    """Return the native tool calls in a message, which are only kept, as none was offered."""
    calls = message.get("tool_calls")
    found = [*(calls if isinstance(calls, list) else [calls]), message.get("function_call")]
    return [call for call in found if call]


def _parse(body: bytes) -> Json:
    if body.lstrip()[:1] == b"<":
        raise bad_response("The model's server answered with a web page. Check OPENAI_BASE_URL.")
    try:
        return json.loads(body.decode())
    except (ValueError, RecursionError):  # also for broken UTF-8 and endless digits or brackets
        raise bad_response("The model's server answered with something that is not JSON.") from None


def _of(value: Json, key: str) -> Json:
    return value.get(key) if isinstance(value, dict) else None


def _first(choices: Json) -> Json:
    if not isinstance(choices, list) or not choices:
        raise bad_response("The model's server answered without choices.")
    return choices[0]


def _check_finished(choice: Json, *, refused: bool, ignored: int) -> None:
    """Raise ModelFailed if the model stopped before it was done.

    The beginning of a truncated answer may parse and yet say the opposite of the whole.
    """
    finish = _of(choice, "finish_reason")
    if finish == "length":
        told = "The model's answer was cut off at its length limit."
        raise ModelFailed("llm_truncated", told, ignored=ignored)
    if finish == "content_filter":
        told = "A content filter withheld the model's answer."
        raise ModelFailed("llm_refused", told, ignored=ignored)
    if refused:
        raise ModelFailed("llm_refused", "The model refused to answer.", ignored=ignored)


def _tokens(usage: Json) -> tuple[int, int] | None:
    counts = _of(usage, "prompt_tokens"), _of(usage, "completion_tokens")
    return counts if all(map(_is_count, counts)) else None


def _is_count(count: Json) -> bool:
    # `type`, because True is an int too.
    return type(count) is int and 0 <= count <= MAX_TOKENS


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def bad_response(message: str) -> ModelFailed:
    """Return the failure for an invalid body: torn, or not from a model."""
    return ModelFailed("llm_bad_response", message, retry=True, outage=True)
