"""Judge a server's word for why a reply ended: only a reply that is known to be whole is read.

The beginning of a reply may parse and yet say the opposite of the whole.
"""

from __future__ import annotations

import json
import re

from agents.core.requests import Json
from agents.llm.exchange import ModelFailed

_WHOLE = {"", "stop", "tool_calls", "function_call", "eos", "eos_token", "stop_sequence"}
_WHOLE |= {"end_turn"}
_FAULT = "llm_bad_response"
_OTHERWISE = (  # what a word means that has one of these in it, in the spellings of many families
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


def is_whole(word: Json) -> bool:
    """Tell whether a word says that the reply is whole; none, as some servers send, says so too."""
    return word is None or (isinstance(word, str) and word.strip().lower() in _WHOLE)


def check_finish(word: Json, *, refused: bool = False, ignored: int = 0) -> None:
    """Raise ModelFailed unless the reply is whole. Only a server's fault is an outage."""
    if is_whole(word):
        if refused:
            raise ModelFailed("llm_refused", "The model refused to answer.", ignored=ignored)
        return
    said = word if isinstance(word, str) else json.dumps(word)
    known = (one for one in _OTHERWISE if re.fullmatch(one[1], said.strip().lower()))
    reason, _, told = next(known)
    if reason == _FAULT:
        raise bad_response(f"The model's answer {told}.")
    unknown = said if reason == "llm_ended" else ""
    raise ModelFailed(reason, f"The model's answer {told}.", ignored=ignored, word=unknown)


def has_error(*parts: Json) -> bool:
    """Tell whether a server reports an error in one of these objects, beside what it holds."""
    objects = [part for part in parts if isinstance(part, dict)]
    kinds = [one.get(name) for one in objects for name in ("type", "object")]
    return "error" in kinds or any(one.get("error") or one.get("errors") for one in objects)


def bad_response(message: str) -> ModelFailed:
    """Return the failure for an invalid body: torn, or not from a model."""
    return ModelFailed(_FAULT, message, retry=True, outage=True)
