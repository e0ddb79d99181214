"""A declared workflow: sequences of goals and convergences, checked before they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from agents.core.requests import Json


class Supervision(IntEnum):
    """Who supervises a step. The greater is the stricter, and the stricter counts (SVC-Q7)."""

    UNSUPERVISED = 0
    BY_MODEL = 1
    BY_PERSON = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workflow; without a default it must be given at launch."""

    name: str
    default: str | None = None


@dataclass(frozen=True)
class Agent:
    """One of the agents that a goal fans out to."""

    name: str
    task: str = ""  # "": the goal's own description


@dataclass(frozen=True)
class WorkflowStep:
    """A goal or a convergence: the unit of supervision."""

    kind: str  # goal, convergence
    name: str
    description: str
    mode: Supervision = Supervision.UNSUPERVISED
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

    name: str
    steps: tuple[WorkflowStep, ...]
    mode: Supervision = Supervision.UNSUPERVISED


@dataclass(frozen=True)
class Workflow:
    """The whole document."""

    name: str
    sequences: tuple[Sequence, ...]
    parameters: tuple[Parameter, ...] = ()
    mode: Supervision = Supervision.UNSUPERVISED
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

    `core.workflow_checks` checks its meaning.
    """
    said = _object(document, "The workflow", _WORKFLOW)
    return Workflow(
        name=_text(said, "name"),
        title=_text(said, "title"),
        mode=_mode(said),
        parameters=tuple(_parameter(item) for item in _list(said, "parameters")),
        sequences=tuple(_sequence(item) for item in _list(said, "sequences")),
    )


_WORKFLOW = ("name", "title", "mode", "parameters", "sequences")
_STEP = ("kind", "name", "description", "mode", "outputs", "tools", "agents", "synthesis")
_MODES = {mode.word: mode for mode in Supervision}


def _sequence(document: Json) -> Sequence:
    said = _object(document, "A sequence", ("name", "mode", "steps"))
    steps = tuple(_step(item) for item in _list(said, "steps"))
    return Sequence(_text(said, "name"), steps, _mode(said))


def _step(document: Json) -> WorkflowStep:
    said = _object(document, "A step", (*_STEP, "within", "within_var"))
    kind = _text(said, "kind")
    if kind not in ("goal", "convergence"):
        raise BadWorkflow(f"A step is a goal or a convergence, not {kind!r}.")
    within = said.get("within", 0)
    if isinstance(within, bool) or not isinstance(within, int):
        raise BadWorkflow(f"{kind} {said.get('name')}: 'within' is a whole number.")
    return WorkflowStep(
        kind=kind,
        name=_text(said, "name"),
        description=_text(said, "description"),
        mode=_mode(said),
        outputs=_names(said, "outputs"),
        tools=_names(said, "tools"),
        agents=tuple(_agent(item) for item in _list(said, "agents")),
        synthesis=_text(said, "synthesis"),
        within=within,
        within_var=_text(said, "within_var"),
    )


def _agent(document: Json) -> Agent:
    said = _object(document, "An agent", ("name", "task"))
    return Agent(_text(said, "name"), _text(said, "task"))


def _parameter(document: Json) -> Parameter:
    said = _object(document, "A parameter", ("name", "default"))
    default = _text(said, "default") if "default" in said else None
    return Parameter(_text(said, "name"), default)


def _object(document: Json, what: str, keys: tuple[str, ...]) -> Mapping[str, Json]:
    if not isinstance(document, dict):
        raise BadWorkflow(f"{what} is a JSON object.")
    for key in document:
        if key not in keys:
            raise BadWorkflow(f"{what} has no {key!r}; it takes {', '.join(keys)}.")
    return document


def _list(said: Mapping[str, Json], key: str) -> list[Json]:
    value = said.get(key, [])
    if not isinstance(value, list):
        raise BadWorkflow(f"{key!r} is a list.")
    return value


def _names(said: Mapping[str, Json], key: str) -> tuple[str, ...]:
    return tuple(_text({key: item}, key) for item in _list(said, key))


def _text(said: Mapping[str, Json], key: str) -> str:
    value = said.get(key, "")
    if not isinstance(value, str):
        raise BadWorkflow(f"{key!r} is a text.")
    return value.strip()


def _mode(said: Mapping[str, Json]) -> Supervision:
    word = said.get("mode", Supervision.UNSUPERVISED.word)
    if not isinstance(word, str) or word not in _MODES:
        raise BadWorkflow(f"'mode' is one of {', '.join(_MODES)}, not {word!r}.")
    return _MODES[word]
