"""A declared workflow: sequences of goals and convergences, checked before they run."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, PlainValidator, TypeAdapter, ValidationError

from agents.core.checkpoints import UnreadableReply, object_in
from agents.core.json_forms import canonical, is_text
from agents.core.limits import Limits
from agents.core.requests import Json


class Supervision(IntEnum):
    """The supervisor of a step. A greater value is stricter; the strictest counts (SVC-Q7)."""

    UNSUPERVISED = 0
    BY_MODEL = 1
    BY_PERSON = 2

    @property
    def word(self) -> str:
        return self.name.lower()


_MODES = {mode.word: mode for mode in Supervision}


def _mode(word: Json) -> Supervision:
    if not isinstance(word, str) or word not in _MODES:
        raise ValueError(f"it is one of {', '.join(_MODES)}")
    return _MODES[word]


_Mode = Annotated[Supervision, PlainValidator(_mode)]
_FORM = ConfigDict(extra="forbid", str_strip_whitespace=True)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workflow; without a default it must be given at launch."""

    __pydantic_config__ = _FORM
    name: str = ""
    default: str | None = None


@dataclass(frozen=True)
class Agent:
    """One of the agents that a goal fans out to."""

    __pydantic_config__ = _FORM
    name: str = ""
    task: str = ""  # "": the goal's own description


@dataclass(frozen=True)
class WorkflowStep:
    """A goal or a convergence: the unit of supervision."""

    __pydantic_config__ = _FORM
    kind: Literal["goal", "convergence"]
    name: str = ""
    description: str = ""
    mode: _Mode = Supervision.UNSUPERVISED
    outputs: tuple[str, ...] = ()  # fields read from JSON in the output
    tools: tuple[str, ...] = ()  # that the agent of a goal may propose
    agents: tuple[Agent, ...] = ()
    synthesis: str = ""
    within: int = 0  # the most iterations of a convergence
    within_var: str = ""  # or the name of the parameter with that number

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def texts(self) -> Iterator[str]:
        """Yield every text that may contain a $name."""
        yield self.description
        yield self.synthesis
        yield from (agent.task for agent in self.agents)


@dataclass(frozen=True)
class Sequence:
    """Steps one after the other."""

    __pydantic_config__ = _FORM
    name: str = ""
    steps: tuple[WorkflowStep, ...] = ()
    mode: _Mode = Supervision.UNSUPERVISED


@dataclass(frozen=True)
class Workflow:
    """The whole document."""

    __pydantic_config__ = _FORM
    name: str = ""
    sequences: tuple[Sequence, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    mode: _Mode = Supervision.UNSUPERVISED
    title: str = ""

    @property
    def steps(self) -> Iterator[tuple[WorkflowStep, Supervision]]:
        """Yield the steps in order, each with its mode of supervision."""
        for sequence in self.sequences:
            for step in sequence.steps:
                yield step, max(self.mode, sequence.mode, step.mode)


class BadWorkflow(ValueError):
    """The document cannot be run. The message names every problem, one per line."""


def read_workflow(document: Json) -> Workflow:
    """Return the workflow that a document declares. Raises BadWorkflow for a wrong shape.

    `check_workflow` checks its meaning.
    """
    try:
        return _WORKFLOW.validate_json(canonical(document), strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "The workflow"
        raise BadWorkflow(f"{place} cannot be {wrong['input']!r}: {wrong['msg']}.") from None


_WORKFLOW = TypeAdapter(Workflow)


# Checks before anything runs, and the binding of parameters.

Values = Mapping[str, str]

NAME = re.compile(r"[\w .-]{1,60}")  # a step's name is part of its keys
_MOST_ITERATIONS = 20
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")
_NO_JUDGE = "Runtime.Supervisor is required when any node sets Supervise() or SuperviseByHuman()"
_NO_PERSON = "Runtime.HumanCh is required when any node sets SuperviseByHuman()"


def check_workflow(workflow: Workflow, limits: Limits, *, tools: Collection[str]) -> None:
    """Raise BadWorkflow with every problem, one per line, if there are any.

    `tools` are those that exist; a workflow may use those that its policy lets it propose.
    """
    faults = [*_of_whole(workflow, limits), *_of_steps(workflow)]
    faults += _of_tools(workflow, [tool for tool in tools if tool in limits.proposable])
    if faults:
        raise BadWorkflow("preflight: " + "\n".join(faults))


def bind_parameters(workflow: Workflow, inputs: Mapping[str, str]) -> dict[str, str]:
    """Return the value of every parameter. Raises BadWorkflow for one that is missing."""
    values = {}
    for parameter in workflow.parameters:
        value = inputs.get(parameter.name, parameter.default)
        if value is None:
            raise BadWorkflow(f"required parameter missing: {parameter.name}")
        values[parameter.name] = value
    for name in inputs:
        if name not in values:
            raise BadWorkflow(f"the workflow has no parameter {name}")
    return values


def fill_variables(text: str, values: Values) -> str:
    """Return a text with its $names filled in; names within values are not."""
    return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), text)


def fields_in(output: str, names: Collection[str]) -> dict[str, str]:
    """Return the declared fields from JSON in an output; none if one is missing."""
    if not names:
        return {}
    try:
        values = object_in(output)
    except UnreadableReply:
        return {}
    if any(name.lower() not in values for name in names):
        return {}
    return {name: _as_text(values[name.lower()]) for name in names}


def cap_of(step: WorkflowStep, values: Values) -> int:
    """Return how many iterations a convergence may take. Raises BadWorkflow."""
    if not step.within_var:
        return step.within
    value = values.get(step.within_var, "")
    try:
        cap = int(value.strip())
    except ValueError:
        raise BadWorkflow(
            f'{step}: withinVar "{step.within_var}" value "{value}" is not an integer'
        ) from None
    if cap <= 0:
        raise BadWorkflow(f'{step}: withinVar "{step.within_var}" resolved to {cap}, must be > 0')
    return min(cap, _MOST_ITERATIONS)


def _of_whole(workflow: Workflow, limits: Limits) -> Iterator[str]:
    if not workflow.name:
        yield "workflow: name is required"
    if not workflow.sequences:
        yield "workflow: at least one sequence is required"
    yield from _twice("sequence", (sequence.name for sequence in workflow.sequences))
    for sequence in workflow.sequences:
        if not sequence.steps:
            yield f"sequence {sequence.name}: at least one step is required"
    strictest = max((mode for _, mode in workflow.steps), default=workflow.mode)
    if strictest >= 1 and not limits.judge:
        yield f"workflow: {_NO_JUDGE}"
    if strictest >= 2 and not limits.inbox:
        yield f"workflow: {_NO_PERSON}"


def _of_steps(workflow: Workflow) -> Iterator[str]:
    """Yield the problems of the steps, in order."""
    steps = [step for step, _ in workflow.steps]
    known = {parameter.name for parameter in workflow.parameters}
    yield from _twice("step", (step.name for step in steps))
    yield from _twice("output", (name for step in steps for name in step.outputs))
    for step in steps:
        yield from _of_step(step)
        used = dict.fromkeys(name for text in step.texts for name in _VARIABLE.findall(text))
        for name in [*used, *filter(None, [step.within_var])]:
            if name not in known:
                yield f"{step}: ${name} is not declared as a parameter or upstream output"
        known |= {step.name, *step.outputs}


def _of_step(step: WorkflowStep) -> Iterator[str]:
    if not step.name:
        yield f"{step.kind}: name is required"
    elif not NAME.fullmatch(step.name):
        yield f"{step}: a name is at most 60 letters, digits, spaces, points, - and _"
    if not step.description:
        yield f"{step}: description is required"
    elif not all(is_text(text) for text in step.texts if text):
        yield f"{step}: a text is too long or holds control characters"
    if any(not _VARIABLE.fullmatch(f"${name}") for name in step.outputs):
        yield f"{step}: an output is named like a variable, in letters, digits and _"
    if any(not NAME.fullmatch(agent.name) for agent in step.agents):
        yield f"{step}: every agent needs a name"
    yield from _twice(f"{step}: agent", (agent.name for agent in step.agents))
    if step.agents and step.tools:
        yield f"{step}: a goal has tools or agents, not both"
    if step.kind == "convergence":
        yield from _of_convergence(step)


def _of_convergence(step: WorkflowStep) -> Iterator[str]:
    if step.within and step.within_var:
        yield f"{step}: 'within' and 'within_var' are set; set one"
    elif not step.within_var and not 0 < step.within <= _MOST_ITERATIONS:
        most = f" and at most {_MOST_ITERATIONS}" if step.within > 0 else ""
        yield f"{step}: 'within' must be > 0{most}"
    if step.agents or step.tools:
        yield f"{step}: a convergence has neither agents nor tools"


def _of_tools(workflow: Workflow, tools: Collection[str]) -> Iterator[str]:
    for step, _ in workflow.steps:
        for tool in step.tools:
            if tool not in tools:
                yield f"{step}: the policy lets nobody propose {tool}"


def _twice(what: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if name and count > 1:
            yield f"{what} {name}: the name is used {count} times"


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value)
