"""The EXECUTE phase of a workflow's step: one text, a dialogue with tools, agents, or a loop."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agents.core.actions import action_schema, read_action
from agents.core.checkpoints import UnreadableReply, object_in, printable_text, text_of
from agents.core.digest import sha256
from agents.core.requests import Ask, Flow, FlowOutcome, Json, Say, Stop, Together
from agents.core.workflows import Agent, BadWorkflow, WorkflowStep, cap_of, fill_variables
from agents.patterns import Brief, Notes
from agents.patterns.blocks import Blocked, blocks_of, expect_readable, is_by_person
from agents.patterns.dialogue import FROM_VERSION, dialogue_of, next_proposal
from agents.patterns.steps import Steps, answer_to, reports_error, stop
from agents.patterns.supervisor import ProposalTurn, carry_out

EXECUTE = "EXECUTE"
_MARKER = re.compile(r"\bCONVERGED\b")


@dataclass
class Work:
    """A step being executed, once or again: its inputs and its work so far."""

    brief: Brief
    step: WorkflowStep
    values: dict[str, str]  # parameters, earlier outputs and their fields
    earlier: dict[str, str]  # outputs of the steps before it
    failures: dict[str, int]  # convergences that reached their cap
    tools: Notes  # the tool log; its trace is the run's
    correction: str = ""
    done: dict[str, Json] = field(default_factory=dict)  # what a call came to, by what it was

    @property
    def instruction(self) -> str:
        return fill_variables(self.step.description, self.values)

    @property
    def label(self) -> str:
        return self.step.name

    @property
    def calls_made(self) -> list[Json]:
        """Return the tool calls that were carried out, with their results."""
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
        """Return the Stop of this step; a sentence of the specification goes with the reason."""
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
    asked = Ask(f"{label}/execute", "executor", inputs, as_json=as_json, guide=guide)
    text = yield from text_by(work, asked, phase=EXECUTE)
    return printable_text(text).strip()


def text_by(work: Work, asked: Ask, *, phase: str, error: str = "") -> Steps[str]:
    """Return a model's text, or stop the step with a sentence that begins with `error`."""
    try:
        return (yield from answer_to(asked, phase=phase))
    except Stop as end:
        raise work.stop(end.reason, f"{error}{end.reason}", phase=phase) from None


def _proposal_by(work: Work, asked: Ask) -> Steps[str]:
    try:
        return (yield from next_proposal(asked, work.tools, phase=EXECUTE))
    except Stop as end:
        raise work.stop(end.reason, end.reason, phase=EXECUTE) from None


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
        asked = Ask(f"{work.label}/execute", "executor", inputs, guide=guide, dialogue=dialogue)
        number = len(work.tools.history) + 1 + sum(map(is_by_person, work.tools.blocks))
        step = f"{work.label}/{number}"
        call = ""
        try:
            with expect_readable(step):
                text = yield from _proposal_by(work, asked)
                action = read_action(text, specs=work.brief.specs, proposable=allowed)
            if action["kind"] == "final":
                return str(action["answer"])
            call = sha256(action)
            if call in asked_for:
                raise work.stop("loop_detected", "the same call again and again", phase=EXECUTE)
            asked_for.add(call)
            if call in work.done:
                # It happened before the correction: it is recalled and never repeated.
                recalled.append({**action, "observation": work.done[call], "recalled": True})
                continue
            turn = ProposalTurn(step, action, work.tools)
            work.done[call] = yield from carry_out(turn)
        except Blocked as block:
            is_now = work.brief.question_version >= FROM_VERSION
            (block.counted(work.tools) if is_now else block).put_to_agent(work.tools, limits)
            asked_for.discard(call)  # it was not made, and blocks have an end of their own
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
    found = {name: str(outcome.value) for name, outcome in ended.items()}
    if len(found) == 1:
        return next(iter(found.values()))
    how = fill_variables(work.step.synthesis, work.values)
    inputs = work.inputs(answer_as="text", agent_outputs=found, synthesis=how)
    return (yield from _agent_text(work, f"{work.label}/synthesis", inputs))


def _task(work: Work, agent: Agent) -> Flow:
    task = fill_variables(agent.task, work.values) or work.instruction
    inputs = work.inputs(answer_as="text", agent=agent.name, task=task)
    return (yield from _agent_text(work, "task", inputs))


def _converge(work: Work) -> Steps[str]:
    """Iterate until the agent is satisfied or the cap is reached.

    The last non-empty text is the result; reaching the cap is noted, not an error.
    """
    try:
        cap = cap_of(work.step, work.values)
    except BadWorkflow as error:
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
        said = object_in(text)
        return text_of(said, "result").strip(), said.get("converged") is True
    except UnreadableReply:
        return text, False


def _by_word(text: str, so_far: list[str]) -> tuple[str, bool]:
    """Do the same for an agent that ends its text with a word: the text before is the result."""
    said = _MARKER.search(text)
    if said is None or text[: said.start()].rstrip().endswith("NOT"):
        return text, False
    return ("" if so_far else _MARKER.sub("", text).strip()), True
