"""Orchestrator: a planner splits a report into tasks, workers do them side by side."""

from collections.abc import Sequence

from agents.core.json_forms import Task, args_hash, plan_schema, read_plan
from agents.core.limits import Limits
from agents.core.requests import Ask, Failed, Flow, Json, Review, Stop, Together, Use
from agents.patterns import Brief, Notes, pattern, steps

_PLAN, _FINALIZE = "plan", "finalize"
_OUT_OF_TIME, _OUT_OF_DISPATCHES = "max_seconds", "max_dispatches"
_TOO_SLOW = "task_timeout"
# The gateway's reason for a failed call: its name for a task.
_FAULTS = ("denied", "missing", "bad_args", "bad_result", "error")
_REASONS = {f"tool_{fault}": f"worker_{fault}" for fault in _FAULTS}


@pattern
def orchestrator(brief: Brief, notes: Notes) -> Flow:
    """Plan -> Dispatch in parallel -> Aggregate -> Finalize."""
    if brief.scope is None or brief.figures is None:  # launched at a desk without a report
        raise Stop("no_report_scope", phase="plan")
    plan = yield from steps.say_until_usable(lambda: _make_plan(brief, notes), notes, brief.limits)
    lines = yield from dispatch(plan, brief.limits)
    _write_down(lines, notes)
    _stop_where_work_is_missing(plan, lines)
    expected = dict.fromkeys([*brief.limits.required, *(task["worker"] for task in plan)])
    aggregate = brief.figures(notes.history, list(expected))
    written = yield from steps.say_until_usable(
        lambda: _write_brief(brief, notes, aggregate), notes, brief.limits
    )
    return {**written, "plan": plan, "aggregate": aggregate}


def _make_plan(brief: Brief, notes: Notes) -> steps.Steps[list[Task]]:
    """Split the work into tasks, and check and review the plan before any task starts."""
    allowed, most = brief.limits.proposable, brief.limits.max_steps
    inputs = {
        "goal": brief.goal,
        **brief.scope,
        "max_tasks": most,
        **steps.blocks_of(notes, step=_PLAN),
    }
    schema = plan_schema(brief.specs, allowed=allowed, max_tasks=most)
    guide = brief.guidance(schema=schema, tools=allowed)
    with steps.expect_readable(_PLAN):
        text = yield from steps.answer_to(Ask("plan", "planner", inputs, guide=guide), phase="plan")
        tasks = read_plan(text, specs=brief.specs, allowed=allowed, max_tasks=most)
    plan = {"kind": "plan", "tasks": tasks}
    review = yield Review("plan/review", plan)
    if not review["allows"]:
        end = Stop(f"invalid_plan:{review['deciding']['reason']}", phase="plan", raw_plan=plan)
        raise steps.block_for(end, _PLAN, plan, review)
    return list(review["action"]["tasks"])


def dispatch(plan: Sequence[Task], limits: Limits) -> steps.Steps[list[Json]]:
    """Give each task to its worker, several at once. Return a line for each, as planned."""
    allowed = allowances(len(plan), limits)
    flows = {
        task["id"]: _work_on(task, attempts=limits.call_attempts, allowed=allowance)
        for task, allowance in zip(plan, allowed, strict=True)
    }
    ended = yield Together("dispatch", flows, at_once=limits.at_once)
    return [ended[task["id"]].value for task in plan]


def allowances(tasks: int, limits: Limits) -> list[int]:
    """Return the dispatches that each task of a plan may use, in its order.

    They are allotted before anything starts, first one for each task and then the retries, so that
    no task loses its own to a race (ORC-Q10).
    """
    left, given = limits.max_tool_calls, [0] * tasks
    for _ in range(max(limits.call_attempts, 1)):
        for number in range(tasks):
            if left:
                left -= 1
                given[number] += 1
    return given


def _work_on(task: Task, *, attempts: int, allowed: int) -> Flow:
    """Give one task to its worker, again if it took too long. Return its line."""
    action = {"kind": "tool", "name": task["worker"], "args": task["args"]}
    review = yield Review("review", action)
    if not review["allows"] or review["action"] != action:
        return _line(task, attempts=0, failed=steps.block_reason(review))
    for attempt in range(1, attempts + 1):
        if attempt > allowed:
            return _line(task, attempts=attempt, failed=_OUT_OF_DISPATCHES)
        try:
            seen = yield Use("work", task["worker"], task["args"], review["key"])
        except Failed as error:
            reason = _reason_of(error.reason)
            if reason == _TOO_SLOW and attempt < attempts:
                continue
            # The time ran out before this attempt began.
            made = attempt - 1 if reason == _OUT_OF_TIME else attempt
            return _line(task, attempts=made, failed=reason)
        return _line(task, attempts=attempt, observation=seen)
    return _line(task, attempts=0, failed="unknown")


def _reason_of(refusal: str) -> str:
    """Return the gateway's refusal in the words of a task; a budget keeps its name."""
    word, _, worker = refusal.partition(":")
    if word == "tool_timeout":
        return _TOO_SLOW
    if word == "max_tool_calls":
        return _OUT_OF_DISPATCHES
    return f"{_REASONS[word]}:{worker}" if word in _REASONS else refusal


def _line(task: Task, *, attempts: int, failed: str = "", observation: Json = None) -> Json:
    """Return a task's outcome for the history."""
    return {
        "task_id": task["id"],
        "worker": task["worker"],
        "critical": task["critical"],
        "status": "failed" if failed else "done",
        "attempts_used": attempts,
        "retried": attempts != 1,
        "args_hash": args_hash(task["args"]),
        **({"stop_reason": failed} if failed else {"observation": observation}),
    }


def _write_down(lines: Sequence[Json], notes: Notes) -> None:
    """Add the begun tasks to trace and history, in the order of the plan."""
    for done in lines:
        if done.get("stop_reason") == _OUT_OF_TIME and not done["attempts_used"]:
            continue
        notes.history.append(done)
        told_of = {key: value for key, value in done.items() if key != "observation"}
        notes.trace.append({**told_of, "stop_reason": done.get("stop_reason")})


def _stop_where_work_is_missing(plan: Sequence[Task], lines: Sequence[Json]) -> None:
    """Raise Stop if a budget ran out or a critical task failed."""
    failed = [done for done in lines if done["status"] == "failed"]
    critical = [done for done in failed if done["critical"]]
    for budget in (_OUT_OF_TIME, _OUT_OF_DISPATCHES):
        if any(done["stop_reason"] == budget for done in failed):
            raise Stop(budget, phase="dispatch", plan=list(plan))
    if critical:
        raise Stop(
            "critical_task_failed", phase="dispatch", plan=list(plan), failed_critical=critical
        )


def _write_brief(brief: Brief, notes: Notes, aggregate: Json) -> steps.Steps[Json]:
    """Write the brief from the aggregate, and review it against the aggregate."""
    inputs = brief.as_models_see(
        {"goal": brief.goal, "aggregate": aggregate, **steps.blocks_of(notes, step=_FINALIZE)}
    )
    request = Ask(_FINALIZE, "reporter", inputs, as_json=False, guide=brief.guidance())
    with steps.expect_readable(_FINALIZE):
        try:
            text = yield from steps.nonblank_text(request, phase=_FINALIZE, aggregate=aggregate)
        except steps.NoReply as silence:  # findings are kept, even if a budget ran out
            raise steps.NoReply(silence.reason, phase=_FINALIZE, aggregate=aggregate) from None
    action = {"kind": "brief", "answer": text, "aggregate": aggregate}
    review = yield Review("finalize/review", action)
    if not review["allows"]:
        end = Stop(steps.block_reason(review), phase=_FINALIZE, aggregate=aggregate, brief=text)
        raise steps.block_for(end, _FINALIZE, {"kind": "brief", "answer": text}, review)
    return steps.final_answer(review["action"])
