"""Parse a planner model's reply into a plan, strictly.

A plan is {"kind": "plan", "tasks": [{"id", "worker", "args", "critical"}]}; unknown keys are
ignored. Reasons and their order are the reference's (conformance cases orc-064 to orc-104).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from agents.core.actions import ArgSpecs, args_schema, is_text
from agents.core.requests import Json, Stop
from agents.core.schemas import TEXT, TRUTH, exact_object, one_of, word
from agents.core.strict_json import BadJson, parse

Task: TypeAlias = dict[str, Json]

MAX_ID = 60  # characters of a task's id, which becomes part of a step's key
_KEYS = ("id", "worker", "args", "critical")


class InvalidPlan(Exception):
    """The reply is not a plan that a planner may make. The message is the reason code."""


def read_plan(
    text: str, *, specs: ArgSpecs, allowed: Collection[str], max_tasks: int
) -> list[Task]:
    """Return the tasks that a planner's reply asks for. Raises Stop("invalid_plan:…").

    An empty reply reads as {}, and has no kind.
    """
    raw: Json = {"kind": "invalid", "raw": text}
    try:
        raw = parse(text or "{}")
        return check_plan(raw, specs=specs, allowed=allowed, max_tasks=max_tasks)
    except BadJson:
        reason = "non_json"
    except InvalidPlan as error:
        reason = str(error)
    raise Stop(f"invalid_plan:{reason}", phase="plan", raw_plan=raw)


def plan_schema(specs: ArgSpecs, *, allowed: Collection[str], max_tasks: int) -> Json:
    """Return the JSON schema of a plan. It guides a model; the checks here still decide."""
    tasks = one_of(
        exact_object(id=TEXT, worker=word(name), args=args_schema(spec), critical=TRUTH)
        for name, spec in specs.items()
        if name in allowed
    )
    several = {"type": "array", "items": tasks, "minItems": 1, "maxItems": max_tasks}
    return exact_object(kind=word("plan"), tasks=several)


def check_plan(
    said: Json, *, specs: ArgSpecs, allowed: Collection[str], max_tasks: int
) -> list[Task]:
    """Return the tasks of `said`, trimmed. Raises InvalidPlan."""
    if not isinstance(said, dict):
        raise InvalidPlan("not_object")
    if said.get("kind") != "plan":
        raise InvalidPlan("kind")
    tasks = said.get("tasks")
    if not isinstance(tasks, list):
        raise InvalidPlan("tasks")
    if not 1 <= len(tasks) <= max_tasks:
        raise InvalidPlan("max_tasks")
    plan: list[Task] = []
    for task in tasks:
        plan.append(_task(task, [past["id"] for past in plan], specs, allowed))
    return plan


def _task(said: Json, taken: Collection[str], specs: ArgSpecs, allowed: Collection[str]) -> Task:
    if not isinstance(said, dict):
        raise InvalidPlan("task_shape")
    if not set(_KEYS) <= set(said):
        raise InvalidPlan("missing_keys")
    if not is_text(said["id"]) or len(said["id"].strip()) > MAX_ID:
        raise InvalidPlan("task_id")
    if said["id"].strip() in taken:
        raise InvalidPlan("duplicate_task_id")
    if not is_text(said["worker"]):
        raise InvalidPlan("worker")
    worker = said["worker"].strip()
    if worker not in allowed:
        raise InvalidPlan(f"worker_not_allowed:{worker}")
    if not isinstance(said["args"], dict):
        raise InvalidPlan("args")
    if not isinstance(said["critical"], bool):
        raise InvalidPlan("critical")
    spec = specs.get(worker, {})
    if not isinstance(spec, Mapping):  # a desk's tool is no report worker
        raise InvalidPlan(f"worker_not_allowed:{worker}")
    args = _args(worker, said["args"], spec)
    return {"id": said["id"].strip(), "worker": worker, "args": args, "critical": said["critical"]}


def _args(worker: str, args: dict[str, Json], spec: Mapping[str, str]) -> dict[str, Json]:
    """Return a task's arguments, all of them present and texts. Raises InvalidPlan."""
    if set(args) - set(spec):
        raise InvalidPlan(f"extra_args:{worker}")
    for name in spec:
        if name not in args:
            raise InvalidPlan(f"missing_arg:{worker}:{name}")
        if not is_text(args[name]):
            raise InvalidPlan(f"bad_arg_type:{worker}:{name}")
    return {name: args[name].strip() for name in args}
