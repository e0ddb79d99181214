"""Workflow: declared steps, each committed to, carried out, assessed, reconciled and judged."""

from __future__ import annotations

from agents.core.checkpoints import (
    Assessment,
    Commitment,
    evidence,
    no_assessment,
    no_commitment,
    read_assessment,
    read_commitment,
    reconcile,
)
from agents.core.digest import sha256
from agents.core.requests import Ask, Flow, Json, Review, Stop
from agents.core.workflows import (
    BadWorkflow,
    Workflow,
    bind_parameters,
    check_workflow,
    fields_in,
    read_workflow,
)
from agents.patterns import Brief, Notes, pattern, proposes_again
from agents.patterns.execution import EXECUTE, Work, execute
from agents.patterns.step_run import COMMIT, POST, RECONCILE, StepRound, StepRun
from agents.patterns.steps import Steps, answer_to, final_answer
from agents.patterns.supervision import supervise


@pattern
@proposes_again
def workflow(brief: Brief, notes: Notes) -> Flow:
    """Commit -> Execute -> Post -> Reconcile -> Supervise, for each step of a document."""
    declared, values = _declared_workflow(brief)
    outputs: dict[str, str] = {}
    failures: dict[str, int] = {}
    end: Json = {"answer": ""}
    for step, mode in declared.steps:
        log = Notes(trace=notes.trace)
        work = Work(brief, step, {**values}, {**outputs}, failures, log)
        course = StepRun(work, mode, notes)
        end = yield from (run_supervised(course) if mode else run_unsupervised(course))
        output = outputs[step.name] = text_of(end)
        values |= {step.name: output, **fields_in(output, step.outputs)}
    fields = {name: values[name] for s, _ in declared.steps for name in s.outputs if name in values}
    return {"outputs": {**outputs, **fields}, "failures": failures, **final_answer(end)}


def _declared_workflow(brief: Brief) -> tuple[Workflow, dict[str, str]]:
    """Return the document and the values of its parameters. Raises Stop("bad_workflow")."""
    try:
        declared = read_workflow(brief.workflow)
        values = bind_parameters(declared, brief.inputs)
        check_workflow(declared, brief.limits, tools=brief.specs)
    except BadWorkflow as error:
        raise Stop("bad_workflow", error=str(error)) from None
    return declared, values


def text_of(reviewed: Json) -> str:
    """Return the agent's output with its references filled in."""
    return str(reviewed.get("note", reviewed["answer"]))


def run_unsupervised(course: StepRun) -> Steps[Json]:
    """Execute a step without a supervisor. Return the output as reviewed by policy."""
    output = yield from execute(course.work)
    reviewed, claim = yield from _review_output(course, output)
    course.line(EXECUTE, ok=not claim)
    if claim:
        raise course.work.stop("answer_contradicts_ledger", claim, phase=EXECUTE)
    return reviewed


def run_supervised(course: StepRun) -> Steps[Json]:
    """Commit once, then repeat rounds until an output is accepted. Return it, as reviewed.

    A correction is added to the declared instruction, so corrections do not pile up; the commitment
    stays, because the work is compared with it.
    """
    course.commitment = yield from commit_to_step(course)
    while True:
        course.rounds += 1
        now = yield from run_round(course)
        correction = yield from supervise(course, now)
        if not correction:
            yield course.say("step.accepted", sha256=sha256(now.output))
            by_person = {"approved_by": now.person["by"]} if now.person else {}
            return {**now.reviewed, **by_person}
        course.work.correction = correction


def commit_to_step(course: StepRun) -> Steps[Commitment]:
    """COMMIT: have the agent declare its intentions. A failure is noted and ends nothing."""
    inputs = course.work.inputs(tools=list(course.work.step.tools))
    guide = course.work.brief.guidance(tools=course.work.step.tools)
    asked = Ask(f"{course.work.label}/commit", "committer", inputs, guide=guide)
    try:
        found = read_commitment((yield from answer_to(asked, phase=COMMIT)))
    except Stop as end:
        if not end.details:  # a budget of the run, which applies to every phase
            raise
        found = no_commitment(end.reason)
    course.line(COMMIT, ok=found.given, confidence=found.confidence)
    yield course.say("checkpoint.committed", confidence=found.confidence, given=found.given)
    return found


def run_round(course: StepRun) -> Steps[StepRound]:
    """EXECUTE, POST and RECONCILE once."""
    output = yield from execute(course.work)
    course.line(EXECUTE)
    now = StepRound(course.rounds, output, {"answer": output})
    now.assessment = yield from assess_round(course, now)
    now.triggers = reconcile(course.commitment, now.assessment)
    if not course.work.brief.limits.reference.self_reported:
        now.reviewed, claim = yield from _review_output(course, output)
        now.output = text_of(now.reviewed)
        used = [call["name"] for call in course.work.calls_made]
        now.triggers += evidence(course.commitment, used=used, claim=claim)
    course.line(RECONCILE, ok=not now.triggers, triggers=now.triggers)
    yield course.say("drift.reconciled", triggers=now.triggers)
    return now


def assess_round(course: StepRun, now: StepRound) -> Steps[Assessment]:
    """POST: have the agent compare its work with its commitment."""
    pre = course.commitment.as_json()
    brief, calls = course.work.brief, course.work.calls_made
    done = brief.as_models_see(calls)
    inputs = course.work.inputs(commitment=pre, output=now.output, done=done)
    asked = Ask(f"{course.work.label}/post", "assessor", inputs, guide=brief.guidance())
    try:
        found = read_assessment((yield from answer_to(asked, phase=POST)))
    except Stop as end:
        if not end.details:
            raise
        found = no_assessment(end.reason)
    course.line(POST, ok=found.met_commitment)
    met = found.met_commitment
    yield course.say("checkpoint.assessed", met_commitment=met, readable=found.readable)
    return found


def _review_output(course: StepRun, output: str) -> Steps[tuple[Json, str]]:
    """Review an output. Return it as allowed, and why it was blocked, or ""."""
    action = {"kind": "final", "answer": output}
    if course.work.brief.limits.reference.self_reported or not output.strip():
        return action, ""
    review = yield Review(f"{course.work.label}/review", action)
    if review["allows"]:
        return review["action"], ""
    deciding = review["deciding"]
    revised = review["action"] or action
    kept = revised if "note" in revised else action  # whoever lets it stand does not write a record
    return kept, str(deciding["observed"] or deciding["sentence"])
