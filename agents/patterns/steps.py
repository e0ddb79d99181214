"""What the steps of every pattern have in common."""

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


def answer_to(asked: Ask, *, phase: str, **details: Json) -> Steps[str]:
    """Return a model's text, or stop the run with the reason why there is none.

    `details` go into the record of that stop, with the phase.
    """
    try:
        reply = yield asked
    except Failed as error:
        raise stop(error.reason, phase=phase, **details) from None
    return str(reply["text"])


def stop(reason: str, **details: Json) -> Stop:
    """Return the Stop for a failed step; a budget that ran out belongs to no phase."""
    return Stop(reason, **({} if reason in BUDGETS else details))


def block_reason(review: Json) -> str:
    """Return the stop reason of a review that does not allow an action."""
    reason = review["deciding"]["reason"]
    return str(reason) if reason in _SAID_PLAINLY else f"supervisor_block:{reason}"


def final_answer(action: Json) -> Json:
    """Return what a run ends with: its answer, the agent's note and who has approved that."""
    return {key: action[key] for key in ("answer", "note", "approved_by") if key in action}
