"""The SUPERVISE phase: a judge or a person decides what happens after a round."""

from __future__ import annotations

from agents.core.checkpoints import (
    ASK_HUMAN,
    CONTINUE,
    HALT,
    Verdict,
    is_of_policy,
    question_by_person,
    question_of,
    read_verdict,
)
from agents.core.request_kinds import OUTPUT, QUESTION
from agents.core.requests import Ask, Escalate, Json
from agents.core.workflows import Supervision
from agents.patterns.execution import text_by
from agents.patterns.step_run import SUPERVISE, StepRound, StepRun
from agents.patterns.steps import Steps

BUDGET_SPENT = "reorients_used_up"


def supervise(course: StepRun, now: StepRound) -> Steps[str]:
    """SUPERVISE: return "" if the output stands, else what to correct. Raises Stop."""
    course.note(now)
    if course.mode is Supervision.BY_PERSON:
        return (yield from _by_person(course, now, OUTPUT.stored))
    if course.work.brief.limits.reference.self_reported and course.rounds == 1 and not now.triggers:
        return ""
    return (yield from _by_model(course, now))


def _by_model(course: StepRun, now: StepRound) -> Steps[str]:
    """Follow the judge: continue, reorient as often as policy allows, ask a person, or halt."""
    limits, work = course.work.brief.limits, course.work
    verdict = now.verdict = yield from ask_judge(course, now)
    course.note(now)
    if verdict.word == CONTINUE and not any(map(is_of_policy, now.triggers)):
        return ""
    if verdict.word == CONTINUE:  # what the policy says of an output no judge overrules
        return (yield from _by_person(course, now, OUTPUT.stored))
    if verdict.word == HALT:
        yield course.say("step.halted", why=verdict.reason)
        sentence = f"halted by supervision: {verdict.reason}"
        raise work.stop("halted_by_supervision", sentence, phase=SUPERVISE)
    if verdict.word == ASK_HUMAN:
        return (yield from _by_person(course, now, QUESTION.stored))
    if course.reorients < limits.max_reorients:
        course.reorients += 1
        yield course.say("step.reoriented", correction=verdict.correction)
        return verdict.correction
    if limits.inbox:
        return (yield from _by_person(course, now, QUESTION.stored))
    yield course.say("step.halted", why=BUDGET_SPENT)
    spent = f"reorient budget exhausted ({course.reorients}); halted: {verdict.reason}"
    raise work.stop("reorient_budget_exhausted", spent, phase=SUPERVISE)


def ask_judge(course: StepRun, now: StepRound) -> Steps[Verdict]:
    """Ask the judge about the round, with the output and the tool log (SVC-Q3)."""
    inputs = course.work.inputs(
        commitment=course.commitment.as_json(),
        assessment=now.assessment.as_json(),
        triggers=now.triggers,
        output=now.output,
        done=course.work.brief.as_models_see(course.work.calls_made),
        reorients_left=course.work.brief.limits.max_reorients - course.reorients,
    )
    guide = course.work.brief.guidance()
    asked = Ask(f"{course.work.label}/judge", "judge", inputs, guide=guide)
    failed = "supervise phase: supervise: model call: "
    text = yield from text_by(course.work, asked, phase=SUPERVISE, error=failed)
    verdict = read_verdict(text)
    course.line(SUPERVISE, ok=verdict.word == CONTINUE, verdict=verdict.word)
    yield course.say("verdict.rendered", verdict=verdict.word, reason=verdict.reason)
    return verdict


def _by_person(course: StepRun, now: StepRound, kind: str) -> Steps[str]:
    """Wait for a person to approve this output (""), correct it (their words) or deny it."""
    work = course.work
    asked_why = question_of(now.verdict, now.triggers) if now.verdict else ""
    now.question = asked_why or question_by_person(now.triggers)
    course.note(now)
    if not work.brief.limits.inbox:
        sentence = f"AskHuman verdict but no HumanCh wired: {now.question}"
        raise work.stop("nobody_to_ask", sentence, phase=SUPERVISE)
    yield course.say("human.asked", about=kind, question=now.question)
    held = {**now.as_json(course), "kind": "output", "name": work.step.name}
    decision = yield Escalate(f"{work.label}/person", kind, held, _ruling(kind, now))
    now.person = {key: decision[key] for key in ("decision", "by", "comment")}
    course.note(now)
    course.line(SUPERVISE, ok=decision["decision"] == "approved", person=decision["decision"])
    yield course.say("human.answered", decision=decision["decision"], by=decision["by"])
    if decision["decision"] == "approved":
        return ""
    if decision["decision"] == "adjusted":
        return str(decision["correction"])
    yield course.say("step.halted", why=decision["decision"])
    if decision["decision"] == "expired":
        raise work.stop("escalation_expired", "nobody answered in time", phase=SUPERVISE)
    raise work.stop("denied_by_human", "denied by human", phase=SUPERVISE)


def _ruling(kind: str, now: StepRound) -> Json:
    """Return a stand-in for a review when a person is asked about an output."""
    by_person = {"rule": "workflow.by_person", "reason": "output_review"}
    by_judge = {"rule": "workflow.judge", "reason": "judge_asks"}
    deciding = {
        **(by_person if kind == OUTPUT.stored else by_judge),
        "verdict": "escalate",
        "sentence": now.question,
        "risk": 50 if now.triggers else 20,
        "observed": None,
        "limit": None,
        "flip": "",
    }
    return {"escalating": [], "deciding": deciding, "facts": {}, "rulings": []}
