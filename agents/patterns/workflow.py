"""Workflow: declared steps, each committed to, executed, assessed, reconciled and judged."""

import re
from dataclasses import asdict, dataclass, field

from agents.core import checkpoints, workflows
from agents.core.decisions import OUTPUT, QUESTION
from agents.core.json_forms import action_schema, read_action, sha256
from agents.core.requests import Ask, Escalate, Flow, FlowOutcome, Json, Review, Say, Stop, Together
from agents.patterns import Brief, Notes, pattern, proposes_again
from agents.patterns.steps import (
    FROM_VERSION,
    Blocked,
    Steps,
    answer_to,
    blocks_of,
    dialogue_of,
    expect_readable,
    final_answer,
    is_by_person,
    next_proposal,
    reports_error,
    stop,
    without_rule,
)
from agents.patterns.supervisor import ProposalTurn, carry_out


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
        end = yield from (_run_supervised(course) if mode else _run_unsupervised(course))
        output = outputs[step.name] = _output_of(end)
        values |= {step.name: output, **workflows.fields_in(output, step.outputs)}
    fields = {name: values[name] for s, _ in declared.steps for name in s.outputs if name in values}
    return {"outputs": {**outputs, **fields}, "failures": failures, **final_answer(end)}


def _declared_workflow(brief: Brief) -> tuple[workflows.Workflow, dict[str, str]]:
    """Return the document and the values of its parameters. Raises Stop("bad_workflow")."""
    try:
        declared = workflows.read_workflow(brief.workflow)
        values = workflows.bind_parameters(declared, brief.inputs)
        workflows.check_workflow(declared, brief.limits, tools=brief.specs)
    except workflows.BadWorkflow as error:
        raise Stop("bad_workflow", error=str(error)) from None
    return declared, values


def _output_of(reviewed: Json) -> str:
    """Return the agent's output with its references filled in."""
    return str(reviewed.get("note", reviewed["answer"]))


def _run_unsupervised(course: "StepRun") -> Steps[Json]:
    """Execute a step without a supervisor. Return the output as reviewed by policy."""
    output = yield from execute(course.work)
    reviewed, claim = yield from _review_output(course, output)
    course.line(EXECUTE, ok=not claim)
    if claim:
        raise course.work.stop("answer_contradicts_ledger", claim, phase=EXECUTE)
    return reviewed


def _run_supervised(course: "StepRun") -> Steps[Json]:
    """Commit once, then repeat rounds until an output is accepted. Return it, as reviewed.

    A correction is added to the declared instruction, so corrections do not pile up; the commitment
    stays, because the work is compared with it.
    """
    course.commitment = yield from _commit_to_step(course)
    while True:
        course.rounds += 1
        now = yield from _run_round(course)
        correction = yield from _supervise(course, now)
        if not correction:
            yield course.say("step.accepted", sha256=sha256(now.output))
            by_person = {"approved_by": now.person["by"]} if now.person else {}
            return {**now.reviewed, **by_person}
        course.work.correction = correction


def _commit_to_step(course: "StepRun") -> Steps[checkpoints.Commitment]:
    """COMMIT: ask the agent to declare its intentions. A failure is noted and ends nothing."""
    inputs = course.work.inputs(tools=list(course.work.step.tools))
    guide = course.work.brief.guidance(tools=course.work.step.tools)
    request = Ask(f"{course.work.label}/commit", "committer", inputs, guide=guide)
    try:
        made = checkpoints.read_commitment((yield from answer_to(request, phase=COMMIT)))
    except Stop as end:
        if not end.details:  # a budget of the run, which applies to every phase
            raise
        why = f"Failed to obtain commitment from agent: {end.reason}"
        made = checkpoints.Commitment(assumptions=(why,))
    course.line(COMMIT, ok=made.given, confidence=made.confidence)
    yield course.say("checkpoint.committed", confidence=made.confidence, given=made.given)
    return made


def _run_round(course: "StepRun") -> "Steps[StepRound]":
    """EXECUTE, POST and RECONCILE once."""
    output = yield from execute(course.work)
    course.line(EXECUTE)
    now = StepRound(course.rounds, output, {"answer": output})
    now.assessment = yield from _assess_round(course, now)
    now.triggers = checkpoints.reconcile(course.commitment, now.assessment)
    if not course.work.brief.limits.reference.self_reported:
        now.reviewed, claim = yield from _review_output(course, output)
        now.output = _output_of(now.reviewed)
        used = [call["name"] for call in course.work.calls_made]
        now.triggers += checkpoints.evidence(course.commitment, used=used, claim=claim)
    course.line(RECONCILE, ok=not now.triggers, triggers=now.triggers)
    yield course.say("drift.reconciled", triggers=now.triggers)
    return now


def _assess_round(course: "StepRun", now: "StepRound") -> Steps[checkpoints.Assessment]:
    """POST: ask the agent to compare its work with its commitment."""
    pre = asdict(course.commitment)
    brief, calls = course.work.brief, course.work.calls_made
    done = brief.as_models_see(calls)
    inputs = course.work.inputs(commitment=pre, output=now.output, done=done)
    request = Ask(f"{course.work.label}/post", "assessor", inputs, guide=brief.guidance())
    try:
        assessment = checkpoints.read_assessment((yield from answer_to(request, phase=POST)))
    except Stop as end:
        if not end.details:
            raise
        why = f"Failed to obtain self-assessment: {end.reason}"
        assessment = checkpoints.Assessment(concerns=(why,), readable=True)
    course.line(POST, ok=assessment.met_commitment)
    met = assessment.met_commitment
    yield course.say("checkpoint.assessed", met_commitment=met, readable=assessment.readable)
    return assessment


def _review_output(course: "StepRun", output: str) -> Steps[tuple[Json, str]]:
    """Review an output. Return it as allowed, and why it was blocked, or ""."""
    action = {"kind": "final", "answer": output}
    if course.work.brief.limits.reference.self_reported or not output.strip():
        return action, ""
    review = yield Review(f"{course.work.label}/review", action)
    if review["allows"]:
        return review["action"], ""
    deciding = review["deciding"]
    revised = review["action"] or action
    kept = revised if "note" in revised else action  # a person who accepts it writes no record
    return kept, str(deciding["observed"] or deciding["sentence"])


# The SUPERVISE phase: a judge or a person decides what happens after a round.

_BUDGET_SPENT = "reorients_used_up"


def _supervise(course: "StepRun", now: "StepRound") -> Steps[str]:
    """SUPERVISE: return "" if the output stands, else what to correct. Raises Stop."""
    course.note(now)
    if course.mode is workflows.Supervision.BY_PERSON:
        return (yield from _by_person(course, now, OUTPUT.stored))
    if course.work.brief.limits.reference.self_reported and course.rounds == 1 and not now.triggers:
        return ""
    return (yield from _by_model(course, now))


def _by_model(course: "StepRun", now: "StepRound") -> Steps[str]:
    """Follow the judge: continue, reorient as often as policy allows, ask a person, or halt."""
    limits, work = course.work.brief.limits, course.work
    verdict = now.verdict = yield from _ask_judge(course, now)
    course.note(now)
    if verdict.word == checkpoints.CONTINUE:
        # No judge overrules the policy's ruling on an output.
        is_ruled = any(one.startswith(checkpoints.OF_POLICY) for one in now.triggers)
        return (yield from _by_person(course, now, OUTPUT.stored)) if is_ruled else ""
    if verdict.word == checkpoints.HALT:
        yield course.say("step.halted", why=verdict.reason)
        sentence = f"halted by supervision: {verdict.reason}"
        raise work.stop("halted_by_supervision", sentence, phase=SUPERVISE)
    if verdict.word == checkpoints.ASK_HUMAN:
        return (yield from _by_person(course, now, QUESTION.stored))
    if course.reorients < limits.max_reorients:
        course.reorients += 1
        yield course.say("step.reoriented", correction=verdict.correction)
        return verdict.correction
    if limits.inbox:
        return (yield from _by_person(course, now, QUESTION.stored))
    yield course.say("step.halted", why=_BUDGET_SPENT)
    spent = f"reorient budget exhausted ({course.reorients}); halted: {verdict.reason}"
    raise work.stop("reorient_budget_exhausted", spent, phase=SUPERVISE)


def _ask_judge(course: "StepRun", now: "StepRound") -> Steps[checkpoints.Verdict]:
    """Ask the judge about the round, with the output and the tool log (SVC-Q3)."""
    inputs = course.work.inputs(
        commitment=asdict(course.commitment),
        assessment=asdict(now.assessment),
        triggers=now.triggers,
        output=now.output,
        done=course.work.brief.as_models_see(course.work.calls_made),
        reorients_left=course.work.brief.limits.max_reorients - course.reorients,
    )
    guide = course.work.brief.guidance()
    request = Ask(f"{course.work.label}/judge", "judge", inputs, guide=guide)
    failed = "supervise phase: supervise: model call: "
    asking = answer_to(request, phase=SUPERVISE)
    text = yield from _text_by(course.work, asking, phase=SUPERVISE, error=failed)
    verdict = checkpoints.read_verdict(text)
    course.line(SUPERVISE, ok=verdict.word == checkpoints.CONTINUE, verdict=verdict.word)
    yield course.say("verdict.rendered", verdict=verdict.word, reason=verdict.reason)
    return verdict


def _by_person(course: "StepRun", now: "StepRound", kind: str) -> Steps[str]:
    """Wait for a person to approve this output (""), correct it (their words) or deny it."""
    work = course.work
    now.question = checkpoints.question_of(now.verdict, now.triggers)
    course.note(now)
    if not work.brief.limits.inbox:
        sentence = f"AskHuman verdict but no HumanCh wired: {now.question}"
        raise work.stop("nobody_to_ask", sentence, phase=SUPERVISE)
    yield course.say("human.asked", about=kind, question=now.question)
    held = {**now.as_json(course), "kind": "output", "name": work.step.name}
    by_person, by_judge = ("workflow.by_person", "output_review"), ("workflow.judge", "judge_asks")
    of_whom = by_person if kind == OUTPUT.stored else by_judge
    review = without_rule(*of_whom, now.question, risk=50 if now.triggers else 20)
    decision = yield Escalate(f"{work.label}/person", kind, held, review)
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


# The EXECUTE phase of a workflow's step: one text, a dialogue with tools, agents, or a loop.

EXECUTE = "EXECUTE"
_MARKER = re.compile(r"\bCONVERGED\b")


@dataclass
class Work:
    """A step being executed, once or again: its inputs and its work so far."""

    brief: Brief
    step: workflows.WorkflowStep
    values: dict[str, str]  # parameters, earlier outputs and their fields
    earlier: dict[str, str]  # outputs of the steps before it
    failures: dict[str, int]  # convergences that reached their cap
    tools: Notes  # the tool log; its trace is the run's
    correction: str = ""
    done: dict[str, Json] = field(default_factory=dict)  # outcomes of calls, by their content

    @property
    def instruction(self) -> str:
        return workflows.fill_variables(self.step.description, self.values)

    @property
    def label(self) -> str:
        return self.step.name

    @property
    def calls_made(self) -> list[Json]:
        """Return the executed tool calls, with their results."""
        return [
            {"name": past["executed_action"]["name"], "args": past["executed_action"]["args"]}
            | {"observation": past["observation"]}
            for past in self.tools.history
        ]

    def inputs(self, **more: Json) -> Json:
        """Return the agent's inputs in this phase: the corrected instruction, and its material."""
        corrected = f"{self.instruction}\n\n{self.correction}"
        instruction = corrected if self.correction else self.instruction
        return {
            "goal": self.brief.goal,
            "step": self.step.name,
            "instruction": instruction,
            "earlier_outputs": self.earlier,
            **({"output_fields": list(self.step.outputs)} if self.step.outputs else {}),
            **more,
        }

    def stop(self, reason: str, sentence: str, *, phase: str) -> Stop:
        """Return the Stop of this step; the specification's sentence goes with the reason."""
        return stop(reason, phase=phase, step=self.step.name, error=f"{self.step}: {sentence}")


def execute(work: Work) -> Steps[str]:
    """Execute a step once. Return its output."""
    if work.step.kind == "convergence":
        return (yield from _converge(work))
    if work.step.agents:
        return (yield from _fan_out(work))
    if work.step.tools:
        return (yield from _with_tools(work))
    return (yield from _agent_text(work, work.label, work.inputs(answer_as="text")))


def _agent_text(work: Work, label: str, inputs: Json, *, as_json: bool = False) -> Steps[str]:
    """Ask the executing agent. Return its text; an error ends the step at once."""
    guide = work.brief.guidance()
    request = Ask(f"{label}/execute", "executor", inputs, as_json=as_json, guide=guide)
    text = yield from _text_by(work, answer_to(request, phase=EXECUTE), phase=EXECUTE)
    return checkpoints.printable_text(text).strip()


def _text_by(work: Work, asking: Steps[str], *, phase: str, error: str = "") -> Steps[str]:
    """Return a model's text, or stop the step with a sentence that begins with `error`."""
    try:
        return (yield from asking)
    except Stop as end:
        raise work.stop(end.reason, f"{error}{end.reason}", phase=phase) from None


def _with_tools(work: Work) -> Steps[str]:
    """Let the agent propose one action at a time, each reviewed by policy, until its output."""
    limits, allowed = work.brief.limits, work.step.tools
    schema = action_schema(work.brief.specs, proposable=allowed, bound=work.brief.bound)
    guide = work.brief.guidance(schema=schema, tools=allowed)
    asked_for: set[str] = set()  # in this execution
    recalled: list[Json] = []
    for _ in range(limits.max_steps):
        done = work.brief.as_models_see([*work.calls_made, *recalled])
        more = work.brief.as_models_see(blocks_of(work.tools))
        inputs = work.inputs(answer_as="action", tools=list(allowed), done=done, **more)
        dialogue = dialogue_of(work.brief, work.tools)
        request = Ask(f"{work.label}/execute", "executor", inputs, guide=guide, dialogue=dialogue)
        number = len(work.tools.history) + 1 + sum(map(is_by_person, work.tools.blocks))
        step = f"{work.label}/{number}"
        call = ""
        try:
            with expect_readable(step):
                asking = next_proposal(request, work.tools, phase=EXECUTE)
                text = yield from _text_by(work, asking, phase=EXECUTE)
                action = read_action(text, specs=work.brief.specs, proposable=allowed)
            if action["kind"] == "final":
                return str(action["answer"])
            call = sha256(action)
            if call in asked_for:
                raise work.stop("loop_detected", "the same call again and again", phase=EXECUTE)
            asked_for.add(call)
            if call in work.done:
                # It happened before the correction, so it is recalled and not repeated.
                recalled.append({**action, "observation": work.done[call], "recalled": True})
                continue
            turn = ProposalTurn(step, action, work.tools)
            work.done[call] = yield from carry_out(turn)
        except Blocked as block:
            is_now = work.brief.question_version >= FROM_VERSION
            (block.counted(work.tools) if is_now else block).put_to_agent(work.tools, limits)
            asked_for.discard(call)  # it was not made, and blocks have their own limit
            continue
        is_error = limits.reference.errors_fail and reports_error(work.done[call])
        turn.close(work.done[call], failed=is_error)
    raise work.stop("max_steps", "no output within the turns it has", phase=EXECUTE)


def _fan_out(work: Work) -> Steps[str]:
    """Let all agents work on their tasks in parallel, then combine their outputs."""
    flows = {agent.name: _task(work, agent) for agent in work.step.agents}
    ended: dict[str, FlowOutcome] = yield Together(f"{work.label}/agents", flows)
    for outcome in ended.values():
        if outcome.stopped:
            raise work.stop(outcome.stopped, outcome.stopped, phase=EXECUTE)
    outputs = {name: str(outcome.value) for name, outcome in ended.items()}
    if len(outputs) == 1:
        return next(iter(outputs.values()))
    how = workflows.fill_variables(work.step.synthesis, work.values)
    inputs = work.inputs(answer_as="text", agent_outputs=outputs, synthesis=how)
    return (yield from _agent_text(work, f"{work.label}/synthesis", inputs))


def _task(work: Work, agent: workflows.Agent) -> Flow:
    task = workflows.fill_variables(agent.task, work.values) or work.instruction
    inputs = work.inputs(answer_as="text", agent=agent.name, task=task)
    return (yield from _agent_text(work, "task", inputs))


def _converge(work: Work) -> Steps[str]:
    """Iterate until the agent is satisfied or the cap is reached.

    The last non-empty text is the result; reaching the cap is noted, not an error.
    """
    try:
        cap = workflows.cap_of(work.step, work.values)
    except workflows.BadWorkflow as error:
        raise Stop("bad_workflow", phase=EXECUTE, step=work.step.name, error=str(error)) from None
    so_far: list[str] = []
    by_word = work.brief.limits.reference.marker_word
    for _ in range(cap):
        inputs = work.inputs(answer_as="iteration", iterations=list(so_far))
        text = yield from _agent_text(work, work.label, inputs, as_json=not by_word)
        result, satisfied = _by_word(text, so_far) if by_word else _iteration(text)
        if result:
            so_far.append(result)
        if satisfied:
            return so_far[-1] if so_far else ""
    work.failures[work.step.name] = cap
    facts = {"step": work.step.name, "cap": cap}
    yield Say(f"{work.label}/cap_reached", "convergence.cap_reached", facts)
    return so_far[-1] if so_far else ""


def _iteration(text: str) -> tuple[str, bool]:
    """Return the result in a reply and whether its agent is satisfied, which only true says."""
    try:
        reply = checkpoints.object_in(text)
        return checkpoints.text_of(reply, "result").strip(), reply.get("converged") is True
    except checkpoints.UnreadableReply:
        return text, False


def _by_word(text: str, so_far: list[str]) -> tuple[str, bool]:
    """Return the same for a text that ends with a word: the result is the text before."""
    marker = _MARKER.search(text)
    if marker is None or text[: marker.start()].rstrip().endswith("NOT"):
        return text, False
    return ("" if so_far else _MARKER.sub("", text).strip()), True


# A supervised step under way, and its notes.

COMMIT, POST, RECONCILE, SUPERVISE = "COMMIT", "POST", "RECONCILE", "SUPERVISE"


@dataclass
class StepRound:
    """One round: its output, its triggers, and the verdicts on it."""

    number: int
    output: str
    reviewed: Json = None  # the output as the policy allows it: its answer, and its note
    assessment: checkpoints.Assessment = field(default_factory=checkpoints.Assessment)
    triggers: list[str] = field(default_factory=list)
    verdict: checkpoints.Verdict | None = None
    question: str = ""
    person: Json = None
    noted: dict[str, Json] = field(default_factory=dict)  # its entry in the history

    def as_json(self, course: "StepRun") -> Json:
        step, commitment = course.work.step, course.commitment
        instruction = course.work.instruction
        pre = {"step_id": step.name, "step_kind": step.kind, "instruction": instruction}
        post = {"step_id": step.name, "actual_output": self.output}
        return {
            "step": step.name,
            "kind": step.kind,
            "mode": course.mode.word,
            "round": self.number,
            "pre": {**pre, **asdict(commitment)},
            "post": {**post, **asdict(self.assessment)},
            "triggers": self.triggers,
            "escalate": bool(self.triggers),
            "verdict": self.verdict.as_json() if self.verdict else None,
            "question": self.question,
            "person": self.person,
            "tools": course.work.calls_made,
        }


@dataclass
class StepRun:
    """A step under way: its commitment, its rounds, and its notes."""

    work: Work
    mode: workflows.Supervision
    notes: Notes
    commitment: checkpoints.Commitment = field(default_factory=checkpoints.Commitment)
    rounds: int = 0
    reorients: int = 0

    def line(self, phase: str, *, ok: bool = True, **more: Json) -> None:
        """Add a phase to the trace."""
        entry = {"step": self.work.step.name, "phase": phase, "round": self.rounds}
        self.notes.trace.append({**entry, "ok": ok, **more})

    def note(self, now: StepRound) -> None:
        """Note a round, or more of it; a page shows it while a person thinks."""
        if not now.noted:
            self.notes.history.append(now.noted)
        now.noted.update(now.as_json(self))

    def say(self, kind: str, **facts: Json) -> Say:
        """Return the record's line for a phase."""
        about = {"step": self.work.step.name, "round": self.rounds}
        return Say(f"{self.work.label}/{kind}", kind, {**about, **facts})
