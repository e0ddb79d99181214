"""A run's result in the reference's form."""

from collections.abc import Sequence

from agents import patterns
from agents.core.requests import AFTER_BLOCK, EscalationState, Json, Reply, RunState
from agents.engine.turns.advance import brief_of
from agents.models import Escalation, Run, Step
from agents.models.runs import ValuesLocked
from agents.sdk.desk import DESKS, WORDS


def result(run: Run, steps: Sequence[Step] | None = None) -> dict[str, Json]:
    """Return a run's result in the reference's form, with our `run_id` and what it waits for.

    It is derived from the run's steps, but an end by the engine takes precedence. Less is known for
    an erased or archived run, a missing desk, or values that this process cannot read. `steps` are
    all steps in order, if the caller has read them.
    """
    if run.is_emptied:
        times = {"erased_at": run.erased_at, "archived_at": run.archived_at}
        since = {name: at.isoformat() for name, at in times.items() if at}
        left = {"status": run.state, "stop_reason": run.stop_reason}
        return {**left, **since, **_identity(run)}
    unknown = {"status": run.state, "stop_reason": run.stop_reason, **_identity(run)}
    if run.desk not in DESKS:  # nobody here knows its tools
        return unknown
    steps = list(run.steps.order_by("position")) if steps is None else steps
    replies = {step.key: Reply(step.reply, step.failed) for step in steps if step.ended_at}
    try:
        summary = patterns.result(run.pattern, brief_of(run), replies)
    except ValuesLocked:
        return unknown
    if run.state in (RunState.STOPPED, RunState.FAILED):
        summary |= {"status": run.state, "stop_reason": run.stop_reason}
    elif run.state == RunState.WAITING:
        summary |= {"status": "waiting", "escalation": _waiting_for(run)}
    elif isinstance(run.outcome, dict) and "came_of" in run.outcome:
        summary["came_of"] = run.outcome["came_of"]
    words = agent_words(run)
    return {
        **summary,
        **({"words": words} if words else {}),
        **_identity(run),
        "demo_model": any((step.reply or {}).get("demo") for step in steps if _is_answer(step)),
    }


def agent_words(run: Run) -> str:
    """Return the words of a finished run's agent, if its desk answers in words; or ""."""
    return _words_in(run.outcome, run)


def words_after_block(run: Run) -> str:
    """Return the words of a stopped run's agent after a block, which are no result; or ""."""
    return _words_in(answer_after_block(run), run)


def answer_after_block(run: Run) -> Json:
    """Return the answer after a block, which is no result; None if there is none."""
    return run.outcome.get(AFTER_BLOCK) if isinstance(run.outcome, dict) else None


def _words_in(answer: Json, run: Run) -> str:
    desk = DESKS.get(run.desk)
    if desk is None or desk.answers != WORDS or not isinstance(answer, dict):
        return ""
    return str(answer.get("note", ""))


def _identity(run: Run) -> dict[str, Json]:
    profile = run.policy.document["profile"]
    return {"run_id": str(run.pk), "pattern": run.pattern, "profile": profile}


def _is_answer(step: Json) -> bool:
    return step.kind == "ask" and isinstance(step.reply, dict)


def _waiting_for(run: Run) -> Json:
    """Return the open request that expires first."""
    escalation = (
        Escalation.objects.filter(run=run, state=EscalationState.OPEN)
        .order_by("expires_at", "pk")
        .first()
    )
    if escalation is None:
        return None
    deciding = escalation.review["deciding"]
    return {
        "id": escalation.pk,
        "kind": escalation.kind,
        "action": brief_of(run).as_models_see(escalation.action),
        "reason": deciding["reason"],
        "sentence": deciding["sentence"],
        "expires_at": escalation.expires_at.isoformat(),
        "frozen": escalation.frozen_at is not None,
    }
