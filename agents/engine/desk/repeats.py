"""Find what an agent proposed before in its session, perhaps in other words and under another key.

A model that is started again words its reason anew. What a call does is told by its tool, subject,
resource and amount, and at a declared desk by its other terms; free texts never count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agents.core.actions import Action, args_schema
from agents.core.requests import Json
from agents.engine.people.approvals import turn_of
from agents.engine.redaction import RunBorder
from agents.models import Run, Step
from agents.models.call_target import target_of
from agents.patterns.external import ANSWERED, NOT_EXECUTED, UNKNOWN
from agents.sdk.arguments import BadArguments
from agents.sdk.desk import DESKS
from agents.tools import TOOLS, Tool

_WAITS, _UNDER_WAY = "one waits for a person", "one was allowed and is being carried out"
_STATES = {UNKNOWN: "nobody can tell whether one took effect"}
_DONE = "one was carried out"


def repeats_of(run: Run, action: Action, steps: Sequence[Step], turn: str) -> tuple[Json, ...]:
    """Return the calls before this turn's that did or may do the same, oldest first."""
    tool = TOOLS.get(str(action.get("name"))) if action.get("kind") == "tool" else None
    if run.agent_id is None or tool is None or not tool.writes:
        return ()
    deed = _deed(run, action)

    def is_like(reviews: Iterable[Step]) -> bool:
        actions = (one for step in reviews for one in _actions_of(step))
        return any(one.get("name") == tool.name and _deed(run, one) == deed for one in actions)

    found = _in_earlier_runs(run, tool.name, is_like)
    for key, reviews in _turns_before(steps, turn).items():
        if is_like(reviews) and (state := _state_of(steps, key)):
            found.append({"turn": key, "state": state})
    return tuple(found)


def identifying(desk: str, tool: Tool) -> list[str]:
    """Return the arguments that say what a call does: all but a writing tool's free texts."""
    properties = args_schema(tool.spec)["properties"]
    declared = DESKS[desk].tools.get(tool.name) if desk in DESKS else None
    if not tool.writes or declared is None:
        return list(properties)
    kept = {declared.subject, *declared.terms}
    return [name for name, kind in properties.items() if name in kept or not _is_free_text(kind)]


def _is_free_text(kind: Json) -> bool:
    return "string" in kind.get("type", "") and not kind.keys() & {"enum", "const", "format"}


def _in_earlier_runs(
    run: Run, tool: str, is_like: Callable[[Iterable[Step]], bool]
) -> list[dict[str, Json]]:
    """Return the like calls in the runs of the session before this one."""
    earlier = run.earlier_runs()
    reviews = Step.objects.filter(run__in=earlier, kind="review", asked__action__name=tool)
    found: dict[tuple[Any, str], dict[str, Json]] = {}
    for step in reviews.order_by("run__created_at", "position") if earlier else ():
        turn = turn_of(step.key)
        if (step.run_id, turn) in found or not is_like([step]):
            continue
        own = Step.objects.filter(run=step.run_id, key__startswith=turn).order_by("position")
        if state := _state_of(list(own), turn):
            found[step.run_id, turn] = {"run": str(step.run_id), "turn": turn, "state": state}
    return list(found.values())


def _turns_before(steps: Sequence[Step], turn: str) -> dict[str, list[Step]]:
    """Return the reviews of the turns that began before this one, by turn."""
    found: dict[str, list[Step]] = {}
    reviews = (step for step in steps if step.kind == "review")
    for step in sorted(reviews, key=lambda step: step.position):
        key = turn_of(step.key)
        if key == turn:
            break
        found.setdefault(key, []).append(step)
    return found


def _actions_of(review: Step) -> list[Action]:
    """Return an action as it was put to the policy, and as the policy left it."""
    left = review.reply["action"] if isinstance(review.reply, dict) else None
    return [one for one in (review.asked["action"], left) if one and one.get("kind") == "tool"]


def _state_of(steps: Sequence[Step], turn: str) -> str:
    """Return what became of a turn, in words; "" if it did nothing and will do nothing."""
    own = [step for step in steps if step.key.startswith(turn)]
    for step in own:
        if step.kind == "say" and step.asked["kind"] == ANSWERED:
            status = step.asked["facts"]["status"]
            return "" if status == NOT_EXECUTED else _STATES.get(status, _DONE)
    is_held = any(step.kind == "escalate" and step.ended_at is None for step in own)
    return _WAITS if is_held else _UNDER_WAY


def _deed(run: Run, action: Action) -> Json:
    """Return what a call does, without its free texts; None if its arguments cannot be read."""
    try:
        target = target_of(run, action)
        return [*target, _other_terms(run, action)]
    except (BadArguments, KeyError, TypeError, ValueError):
        return None


def _other_terms(run: Run, action: Action) -> list[Json]:
    """Return the further terms of a declared desk's call: keys, numbers, days and choices."""
    desk = DESKS.get(run.desk)
    tool = desk.tools.get(action["name"]) if desk else None
    if tool is None:
        return []
    args = vars(tool.arguments.read(RunBorder(run).resolve(action["args"])))
    keys = {*tool.names, tool.resource}
    kept = {name: args.get(name) for name in tool.terms - {tool.amount}}
    return [
        [name, repr(value)]
        for name, value in sorted(kept.items())
        if name in keys or not (value is None or isinstance(value, str))
    ]
