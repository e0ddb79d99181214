"""The words of a turn: its proposal, its outcome, and all of it as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from agents.core.request_kinds import kind_of
from agents.core.requests import Json
from agents.models import Step
from agents.policies.words import end_sentence
from agents.runs.changes import reply_of
from agents.sdk.desk import tool_title
from agents.shell.event_words import is_answer_of_run, step_in_words
from agents.shell.formats import fields_in_words, in_prose, within_sentence


def title_of(name: str, steps: Sequence[Step], action: Json) -> str:
    first = steps[0].asked
    if steps[0].kind == "escalate" and (turn := kind_of(first["kind"], first["action"]).turn):
        return turn
    if not action:
        where = step_in_words(name)
        where = f"{where[:1].upper()}{where[1:]}"
        if first.get("role"):
            return f"{where}: model asked"
        held = (first.get("action") or {}).get("name")  # put to a person without a review
        word = tool_title(str(first.get("tool") or held or "step"))
        # One of several at once is told apart by its step.
        return f"{where}: {within_sentence(word)}" if "/" in name else word
    kind = action.get("kind")
    if is_output_of_step(name, action):
        return f"Result of {step_in_words(name)}"
    if kind == "plan":
        return f"Plan: {len(action['tasks'])} tasks"
    if name := action.get("name"):
        return tool_title(str(name))
    return {"final": "Answer", "brief": "Brief"}.get(str(kind), str(kind))


def _reviewed_action(steps: Sequence[Step]) -> Json:
    """Return a turn's action as the policy left it; None if nothing was reviewed."""
    reviews = [reply_of(step) for step in steps if step.kind == "review" and step.reply]
    return reviews[-1]["action"] if reviews else None


def note_of(steps: Sequence[Step]) -> str:
    """Return the agent's own words when the console answered in its sentences."""
    action = _reviewed_action(steps)
    return str(action.get("note", "")) if action else ""


def ignored_calls(steps: Sequence[Step]) -> list[str]:
    """Return the tool calls that a model sent beside its answer, which are ignored."""
    calls = (reply_of(s).get("tool_calls", ()) for s in steps if s.kind == "ask" and s.reply)
    return [str(call) for told_of in calls for call in told_of]


def is_output_of_step(name: str, action: Json) -> bool:
    """Tell whether a turn is the output of a workflow's step, not the answer of a run."""
    return action.get("kind") == "final" and not is_answer_of_run(name)


def summary_of(steps: Sequence[Step], action: Json, *, is_output: bool) -> str:
    """Return a turn's outcome in a line: that of its call, or the answer."""
    calls = [step for step in steps if step.kind in ("ask", "use")]
    if calls and calls[-1].failed:
        return end_sentence(calls[-1].failed)
    uses = [s for s in steps if s.kind == "use" and s.reply]
    if uses:
        return _fields(uses[-1].reply)
    if action and action.get("kind") in ("final", "brief"):
        stands = _reviewed_action(steps) or action
        return in_prose(stands.get("note", stands["answer"])) if is_output else stands["answer"]
    held = [step for step in steps if step.kind == "escalate"]
    if held and not action:  # put to a person without a review
        return _answer_to(held[-1])
    asks = [s for s in steps if s.kind == "ask" and s.reply]
    return in_prose(reply_of(asks[-1]).get("text", "")) if asks and not action else ""


def _answer_to(held: Step) -> str:
    """Return what a request asks of a person or, where it says what to do, what they did."""
    kind = kind_of(held.asked["kind"], held.asked["action"])
    if not held.reply or not kind.ends_run:
        return str(held.asked["review"]["deciding"]["sentence"])
    by, decision = reply_of(held)["by"], str(reply_of(held)["decision"])
    return f"{by} {kind.what_was_done(decision)}." if by else kind.undone


def _fields(reply: Json) -> str:
    """Return a tool's reply flattened, without its longer texts."""
    if not isinstance(reply, dict):
        return str(reply)
    flat = {key: value for key, value in reply.items() if not isinstance(value, dict)}
    for part in reply.values():
        flat |= part if isinstance(part, dict) else {}
    return fields_in_words({key: value for key, value in flat.items() if len(str(value)) <= 60})


def raw_of(steps: Sequence[Step]) -> Iterable[str]:
    for step in steps:
        yield f"{step.key} asked\n{as_text(step.asked)}"
        if step.reply is not None:
            yield f"{step.key} reply\n{as_text(step.reply)}"


def as_text(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
