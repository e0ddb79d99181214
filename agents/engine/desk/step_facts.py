"""What a review may know from the run's own steps; the ledger and the desk are asked in facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from types import MappingProxyType

from agents.core.actions import Action
from agents.core.facts import Border
from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.models import Step
from agents.tools import TOOLS, Tool


def specialist_results(steps: Iterable[Step]) -> tuple[Json, ...]:
    """Return what the specialists of the run found, oldest first."""
    replies = [step.reply for step in steps if step.kind == "use" and not step.failed]
    return tuple(
        reply["result"]
        for reply in replies
        if isinstance(reply, dict) and reply.get("status") == "done" and "result" in reply
    )


def approvals_of(steps: Sequence[Step]) -> dict[int, str]:
    """Return who approved a call and why, in a sentence, by the key of the call's step."""
    named = {step.key: step for step in steps}
    found = {}
    for step in steps:
        review = named.get(step.asked.get("allowed_by") or "") if step.kind == "use" else None
        request = named.get(review.asked.get("granted") or "") if review else None
        if request and request.reply:
            by, why = request.reply["by"], " ".join((request.reply.get("comment") or "").split())
            found[step.pk] = f"Approved by {by}: “{why}”." if why else f"Approved by {by}."
    return found


_position = attrgetter("position")


def sent_back_by(steps: Iterable[Step], action: Action) -> str:
    """Return who sent back what keeps `action` from being done unseen, where it writes; or "".

    What was sent back last does, until a yes to a call; of the action's own tool, whatever was.
    """
    if action.get("kind") != "tool":
        return ""
    tool = TOOLS.get(action["name"])
    if tool is not None and not tool.writes:
        return ""
    escalated = sorted((step for step in steps if step.kind == "escalate"), key=_position)
    calls = [(step.asked["action"], step.reply) for step in escalated if step.reply]
    calls = [(call, reply) for call, reply in calls if call["kind"] == "tool"]
    of_tool = [(call, reply) for call, reply in calls if call["name"] == action["name"]]
    said = [reply for _, reply in (*of_tool, *calls[-1:])]
    sent_back = [reply for reply in said if reply.get("decision") == EscalationState.SENT_BACK]
    return str(sent_back[-1]["by"]) if sent_back else ""


def sent_back_sentences(steps: Iterable[Step], tell: Callable[[Step], str]) -> tuple[str, ...]:
    """Return which calls people sent back, in sentences: none of them was made.

    `tell` says what a step asked for.
    """
    asked = sorted((step for step in steps if step.kind == "escalate"), key=_position)
    return tuple(
        f"Sent back by {reply['by']}, not done: {tell(step).removesuffix('.')}."
        for step in asked
        if (reply := step.reply or {}).get("decision") == EscalationState.SENT_BACK
        and step.asked["action"]["kind"] == "tool"
    )


def sentences_on_record(
    steps: Iterable[Step],
    registered: Mapping[str, Tool],
    border: Border,
    *,
    now: Mapping[str, Json] = MappingProxyType({}),
) -> dict[str, str]:
    """Return what may be said of what the run has looked up, by name; the newest counts.

    It is said with values: name them before it is kept. `now` has what tools would find at this
    moment, which is then said in place of what they found.
    """
    said: dict[str, str] = {}
    for step in steps:
        tool = registered.get(step.asked["tool"]) if step.kind == "use" else None
        if tool and tool.may_say and step.reply and not step.failed:
            with suppress(KeyError, TypeError, ValueError, AttributeError):  # it found nothing
                said |= tool.may_say(border.resolve(now.get(tool.name, step.reply)))
    return said
