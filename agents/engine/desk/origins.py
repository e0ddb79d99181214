"""Who named each argument of a call, and which of them a person has to compare.

Both are kept with the review, so that card, list and decision agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agents.core.request_kinds import kind_of
from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.models import Escalation, Step
from agents.sdk.fact_sources import EarlierReview, Origin, names_used, passage


class ReadText(NamedTuple):
    """A text that a tool returned."""

    tool: str
    text: str


def doubt(
    name: str,
    value: Json,
    origin: str,
    *,
    named: Sequence[Any],
    asked: Collection[str],
    read: Iterable[ReadText],
) -> Json:
    """Return an argument that a person has to compare with the request, as it is kept.

    `named` are the value and its other names, `asked` what the goal has of its kind, in words.
    """
    kept: dict[str, Json] = {"name": name, "value": value, "origin": origin, "asked": list(asked)}
    for one in read if origin == Origin.OUTSIDE else ():
        if marks := names_used(named, one.text):
            return {**kept, "tool": one.tool, "marks": marks, "text": passage(one.text, marks[0])}
    return kept


def doubts_of(escalation: Escalation) -> list[Json]:
    """Return what has to be compared before a call is approved. What the policy changed is its."""
    if not kind_of(escalation.kind, escalation.action).runs_tool:
        return []
    args = escalation.action.get("args") or {}
    kept = (escalation.review.get("facts") or {}).get("doubts") or []
    return [one for one in kept if args.get(one["name"]) == one["value"]]


def advice_in(steps: Iterable[Step]) -> list[str]:
    """Return what people wrote when they sent a proposal back: they name what they want instead."""
    replies = (step.reply for step in steps if step.kind == "escalate")
    given = (reply for reply in replies if isinstance(reply, dict))
    return [one["comment"] for one in given if one.get("decision") == EscalationState.SENT_BACK]


def patch_of(step: Step, given: Json) -> dict[str, Json]:
    """Return the arguments that a person set at a step, if the result is exactly this call."""
    reply = step.reply if step.kind == "escalate" and isinstance(step.reply, dict) else {}
    patch: dict[str, Json] = reply.get("patch") or {}
    left = {**step.asked["action"]["args"], **patch} if patch else None
    return patch if left == given else {}


def review_shown(step: Step) -> EarlierReview:
    """Return the review that a person was shown at a step, with what they then set."""
    reply = step.reply if isinstance(step.reply, dict) else {}
    return EarlierReview(step.asked["review"].get("facts") or {}, step.begun_at, reply.get("patch"))


def before_revision(steps: Iterable[Step], args: Json) -> Mapping[str, str]:
    """Return who named the arguments that the policy made these of, if it changed any."""
    for step in steps:
        reply = step.reply if step.kind == "review" and isinstance(step.reply, dict) else {}
        if reply.get("revisions") and reply["action"].get("args") == args:
            found: Mapping[str, str] = reply["facts"].get("origins") or {}
            return found
    return {}
