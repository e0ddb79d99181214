"""Functions for the steps of every pattern."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from agents.core.budget import BUDGETS
from agents.core.requests import Ask, Failed, Json, Request, Stop

T = TypeVar("T")
Steps = Generator[Request, Any, T]

# A false answer is named for what it is. No rule says so any more; runs that ended so still do.
_SAID_PLAINLY = frozenset(
    {"answer_contradicts_ledger", "answer_contradicts_evidence", "brief_contradicts_facts"}
)


class NoReply(Stop):
    """A model gave no answer, for a reason that asking again does not mend."""


def answer_to(asked: Ask, *, phase: str, **details: Json) -> Steps[str]:
    """Return a model's text, or stop the run with the reason why there is none: NoReply.

    `details` go into the record of that stop, with the phase.
    """
    reply = yield from reply_to(asked, phase=phase, **details)
    return str(reply["text"])


def reply_to(asked: Ask, *, phase: str, **details: Json) -> Steps[Json]:
    """Do so, and return the whole reply."""
    try:
        return (yield asked)
    except Failed as error:
        raise no_reply(error.reason, phase=phase, **details) from None


def nonblank_text(asked: Ask, *, phase: str, **details: Json) -> Steps[str]:
    """Return a model's text without blanks around it, or stop the run where that is empty."""
    text = (yield from answer_to(asked, phase=phase, **details)).strip()
    if not text:
        raise Stop("llm_empty", phase=phase, **details)
    return text


def no_reply(reason: str, **details: Json) -> NoReply:
    """Return the Stop for a model that failed; a budget that ran out belongs to no phase."""
    return NoReply(reason, **({} if reason in BUDGETS else details))


def stop(reason: str, **details: Json) -> Stop:
    """Return the Stop for a failed step; a budget that ran out belongs to no phase."""
    return Stop(reason, **({} if reason in BUDGETS else details))


def block_reason(review: Json) -> str:
    """Return the stop reason of a review that does not allow an action."""
    reason = review["deciding"]["reason"]
    return str(reason) if reason in _SAID_PLAINLY else f"supervisor_block:{reason}"


def reports_error(seen: Json) -> bool:
    """Tell whether a tool that was called answered with an error."""
    if not isinstance(seen, dict):
        return False
    return bool(seen.get("error")) if "status" not in seen else seen["status"] == "error"


def final_answer(action: Json) -> Json:
    """Return a run's final result: its answer, what that says it is, the note, who approved it."""
    kept = ("answer", "says", "note", "approved_by")
    return {key: action[key] for key in kept if key in action}
